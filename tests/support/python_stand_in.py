"""A stand-in for an interpreter: it makes an environment with itself in it, and installs a file."""

PYTHON = """\
#!/bin/sh
case $2 in
  venv) mkdir -p "$4/bin" && cp "$0" "$4/bin/python3" ;;
  pip) : >"${0%/bin/python3}/installed" ;;
esac
"""
