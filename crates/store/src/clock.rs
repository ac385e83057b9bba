//! The clock and randomness as parameters, so that times and ids are exact in tests.

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> i64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the clock comes from")]
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Gives random bytes.
pub trait Randomness: Send + Sync {
    /// Fills a buffer with bytes that nobody can predict.
    fn fill(&self, bytes: &mut [u8; 16]);

    /// 32 hexadecimal digits, the form of an OpenTelemetry trace id.
    fn hex(&self) -> String {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }
}

/// An id that sorts by its time: 48 bits of milliseconds, then 80 random bits, as 32 hexadecimal digits.
/// Rows that come one after another lie beside each other in their index.
pub fn time_ordered_id(clock: &dyn Clock, randomness: &dyn Randomness) -> String {
    let time = format!("{:012x}", clock.now_ms() & 0xffff_ffff_ffff);
    time + &randomness.hex()[..20]
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandomness;

impl Randomness for OsRandomness {
    #[expect(clippy::panic, reason = "a machine without randomness can't make tokens or ids")]
    fn fill(&self, bytes: &mut [u8; 16]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system gives no randomness: {error}");
        }
    }
}
