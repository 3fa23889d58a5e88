"""avro.py ENVELOPE.avsc PAYLOAD.avsc... [--as READER.avsc]: reads messages with fastavro, as a consumer would.

Of the payload's schemas that one is taken whose fingerprint the message carries; with --as the payload is resolved into the
reader's own schema. Knows nothing of Headwater: fingerprints are fastavro's own.
"""

import decimal
import io
import json
import struct
import sys

import fastavro
import fastavro.read
from fastavro.schema import fingerprint, to_parsing_canonical_form

from lines import Odd, float8, hexed, serve, wanted

MARK = b"\xc3\x01"
HEADER = len(MARK) + 8

# the number on the wire, which has years that Python's calendar has not
for kind in ["int-date", "long-timestamp-millis", "long-timestamp-micros", "int-time-millis", "long-time-micros",
             "long-local-timestamp-millis", "long-local-timestamp-micros"]:
    fastavro.read.LOGICAL_READERS[kind] = lambda data, *_: data


class Schema:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
        self.name = raw["name"] if "namespace" not in raw else f'{raw["namespace"]}.{raw["name"]}'
        self.mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO"))
        self.parsed = fastavro.parse_schema(raw)

    def read(self, message, reader=None):
        wanted(message[:HEADER], MARK + self.mark, f"the header of {self.name}")
        body = io.BytesIO(message[HEADER:])
        value = fastavro.schemaless_reader(body, self.parsed, reader and reader.parsed)
        wanted(body.read(), b"", f"bytes after {self.name}")
        return value

    def write(self, value):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self.parsed, value)
        return MARK + self.mark + body.getvalue()


def plain(value):
    if isinstance(value, (bytes, bytearray)):
        return hexed(value)
    if isinstance(value, float):
        return float8(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)  # a UUID


def main(paths):
    reader = None
    if "--as" in paths:
        at = paths.index("--as")
        reader = Schema(paths[at + 1])
        del paths[at:at + 2]
    envelope, *payloads = [Schema(path) for path in paths]
    by_mark = {schema.mark: schema for schema in payloads}

    def decode(message):
        row = envelope.read(message)
        # there is one way only to write an envelope
        wanted(envelope.write(row), message, "the envelope written again")
        payload = row["payload"]
        schema = by_mark.get(payload[len(MARK):HEADER])
        if schema is None:
            raise Odd(f"no schema has the fingerprint of {payload[:HEADER].hex()}")
        wanted(schema.name, f'{row["namespace"]}.avro.{row["event_type"]}', "the name of the payload's schema")
        return plain(row) | {"payload": plain(schema.read(payload, reader))}

    serve(decode)


main(sys.argv[1:])
