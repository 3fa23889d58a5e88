"""What both readers share: messages come in as lines of hex, rows go out as lines of JSON, and whatever is odd ends the program.

Values that JSON has no word for, or that its readers round: {"$hex": bytes}, {"$float8": the bits of a double},
{"$nanos": a time finer than a microsecond}, decimals as text. Times are whole microseconds since 1970, dates whole days.
"""

import json
import struct
import sys

FIELDS = [
    "id", "namespace", "action_id", "action_name", "action_params", "started_date", "completion_date",
    "model_id", "model_type", "event_type", "payload", "event_date", "delivered",
]


class Odd(Exception):
    """A message that is not what a strict reader takes."""


def wanted(found, expected, what):
    if found != expected:
        raise Odd(f"{what}: {found!r} instead of {expected!r}")


def hexed(value):
    return {"$hex": value.hex()}


def float8(value):
    return {"$float8": struct.pack(">d", value).hex()}


def serve(decode):
    """Calls decode with the bytes of each message on standard input, and prints what it returns."""
    for number, line in enumerate(sys.stdin, 1):
        try:
            row = decode(bytes.fromhex(line.strip()))
            wanted(list(row), FIELDS, "the envelope's fields")
            print(json.dumps(row, ensure_ascii=False, allow_nan=False))
        except Exception as error:
            sys.exit(f"message {number}: {type(error).__name__}: {error}\n{line.strip()}")
