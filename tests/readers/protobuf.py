"""protobuf.py ENVELOPE DESCRIPTORS: reads messages with Google's protobuf, as a consumer would.

ENVELOPE is the envelope's full name; DESCRIPTORS a FileDescriptorSet that holds it and the payloads. A field that is not set
is null where its absence can be told from its default, and left out if it belongs to a oneof. A float goes out with the
bits of a double.
"""

import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

from lines import float8, hexed, serve, wanted

TIMESTAMP = "google.protobuf.Timestamp"


def known_messages(path):
    pool = descriptor_pool.DescriptorPool()
    with open(path, "rb") as file:
        for file in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def read(kind, encoded):
    # raises when the bytes end inside a field
    message = kind()
    wanted(message.ParseFromString(encoded), len(encoded), "bytes read")
    return message


def instant(message):
    nanos = message.seconds * 10**9 + message.nanos
    wanted(0 <= message.nanos < 10**9, True, "nanos of a Timestamp are in range")
    return nanos // 1000 if nanos % 1000 == 0 else {"$nanos": nanos}


def plain(message):
    unknown = unknown_fields.UnknownFieldSet(message)
    wanted([field.field_number for field in unknown], [], f"unknown fields of {message.DESCRIPTOR.full_name}")
    if message.DESCRIPTOR.full_name == TIMESTAMP:
        return instant(message)
    return {field.name: member(message, field) for field in message.DESCRIPTOR.fields if is_told(message, field)}


def is_told(message, field):
    oneof = field.containing_oneof
    # an optional field of proto3 is the only member of a oneof that nobody wrote
    alone = oneof is None or (len(oneof.fields) == 1 and oneof.name == "_" + field.name)
    return alone or message.HasField(field.name)


def member(message, field):
    value = getattr(message, field.name)
    if is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return {key_text(key): single(value[key], kind) for key in value}
    if field.is_repeated:
        return [single(element, field) for element in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return single(value, field)


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def key_text(key):
    return str(key).lower() if isinstance(key, bool) else str(key)


def single(value, field):
    if field.message_type is not None:
        return plain(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named else value
    if isinstance(value, bytes):
        return hexed(value)
    if isinstance(value, float):
        return float8(value)
    return value


def main(envelope, descriptors):
    message = known_messages(descriptors)

    def decode(encoded):
        event = read(message(envelope), encoded)
        # there is one way only to write an envelope
        wanted(event.SerializeToString(), encoded, "the envelope written again")
        name = f"{event.namespace}.proto.{event.event_type}"
        row = plain(event)
        return row | {"payload": plain(read(message(name), event.payload))}

    serve(decode)


main(*sys.argv[1:])
