//! Any Avro schema, and any payload against it.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater_fuzz::avro_plan(input));

#[cfg(not(fuzzing))]
fn main() {}
