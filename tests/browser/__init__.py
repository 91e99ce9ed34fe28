"""Reports in a real browser: `make test-browser`.

This is a package because pytest would otherwise give its conftest to the tests one folder up.
"""
