//! The spread of four readings, and the longest run of days: Rust without its standard library.
//!
//! rustc spread.rs --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=3 -C panic=abort -C strip=symbols -C link-arg=-zstack-size=1024 -C linker=wasm-ld -o spread.wasm
#![no_std]

#[panic_handler]
fn never(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The largest of four readings less the least.
#[no_mangle]
pub extern "C" fn spread(a: f64, b: f64, c: f64, d: f64) -> f64 {
    let (mut low, mut high) = (a, a);
    for x in [b, c, d] {
        if x < low {
            low = x;
        }
        if x > high {
            high = x;
        }
    }
    high - low
}

/// How many days of `visits`, a bit for each day, are in the longest run without a gap.
#[no_mangle]
pub extern "C" fn longest_run(visits: i64) -> i32 {
    let (mut left, mut length) = (visits as u64, 0);
    while left != 0 {
        left &= left << 1;
        length += 1;
    }
    length
}
