"""`python -m wds_tools` is `wds`: for where scripts are not on the PATH, and to say which Python runs it."""

from wds_tools.cli import main

if __name__ == "__main__":
    main()
