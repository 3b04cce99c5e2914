#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hipplan_fuzzing::Target::find("pack").fuzz(input));
