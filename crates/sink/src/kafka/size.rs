//! How large a message is for a broker.

use headwater_core::message::Message;

/// What every batch begins with (Kafka's message format, version 2).
pub(super) const BATCH_HEADER: usize = 61;

/// The bytes of a batch that holds this message alone and uncompressed: what `max.message.bytes` is compared with.
pub(super) fn alone(message: &Message) -> usize {
    let address = &message.address;
    // Attributes, and the distances in time and offset from the batch's first message, which is this one.
    let mut body = 3;
    body += match &address.key {
        None => 1,
        Some(key) => prefixed(key.len()),
    };
    body += prefixed(message.value.len());
    body += varint(address.headers.len());
    for (name, value) in &address.headers {
        body += prefixed(name.len()) + prefixed(value.len());
    }
    BATCH_HEADER + varint(body) + body
}

fn prefixed(length: usize) -> usize {
    varint(length) + length
}

/// The length of a number in zigzag encoding, seven bits a byte.
fn varint(number: usize) -> usize {
    let bits = usize::BITS - (number << 1).leading_zeros();
    (bits.max(1) as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use headwater_core::message::{Address, Content};

    #[test]
    fn numbers_take_a_byte_for_every_seven_bits() {
        for (number, length) in [(0, 1), (63, 1), (64, 2), (8191, 2), (8192, 3), (1 << 20, 4)] {
            assert_eq!(varint(number), length, "{number}");
        }
    }

    #[test]
    fn a_message_alone_has_the_size_of_its_batch() {
        let message = Message {
            id: "7".into(),
            address: Address::of("t"),
            content: Content::Binary,
            value: Bytes::from_static(b"12345"),
        };
        // length, attributes, time, offset, no key, value's length, value, no headers
        assert_eq!(alone(&message), 61 + 1 + 1 + 1 + 1 + 1 + 1 + 5 + 1);
    }
}
