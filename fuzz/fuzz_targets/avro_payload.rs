//! Any payload against the golden Avro schemas.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater_fuzz::avro_payload(input));

#[cfg(not(fuzzing))]
fn main() {}
