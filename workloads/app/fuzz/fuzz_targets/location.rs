#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shortener_app_fuzz::location(data));
