"""The command `dshapley`.

- `start`: the entry point, with signals, streams and exit codes.
- `app`: all commands together.
- `audit`: the command audit.
- `value`: the commands value, plan and demo.
- `runs`: the commands predict and show.
- `compare`: the command compare.
- `collect`: the command collect.
- `report`: the command report.
- `market`: the commands price, publish, match and check.
- `reproduce`: the command reproduce.
- `options`: options that several commands share.
- `console`: errors and notices for people, and the writing of tables.
"""
