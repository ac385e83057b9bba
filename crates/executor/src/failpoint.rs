//! Places where a test stops the process, to see what becomes of a call that was under way.

/// With the feature `failpoints`, and when the test names the place (`FAILPOINTS=ledger::sent=return`), the process dies;
/// else nothing.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name, |_| crate::failpoint::die());
    };
}

pub(crate) use failpoint;

/// Ends the process as `kill -9` does, here and now: nothing is flushed, nothing is told.
#[cfg(feature = "failpoints")]
pub(crate) fn die() -> ! {
    let id = std::process::id().to_string();
    drop(std::process::Command::new("kill").args(["-9", &id]).status());
    loop {
        std::thread::park();
    }
}
