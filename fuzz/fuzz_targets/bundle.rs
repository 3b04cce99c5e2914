#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hipplan_fuzzing::Target::find("bundle").fuzz(input));
