"""What runs inside the sandbox, on the standard library alone.

The files are also run as scripts where nothing of `agon_env` can be imported, so they know nothing
of it: no record, no answer, no path.
"""
