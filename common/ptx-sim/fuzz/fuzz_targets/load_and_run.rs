#![no_main]

mod target;

libfuzzer_sys::fuzz_target!(|source: &str| {
    target::exercise(source);
});
