//! Places where a test stops the process, to see what becomes of a call that was under way.

/// With the feature `failpoints`, and when the test names the place (`FAILPOINTS=ledger::sent=return`), the process dies;
/// else nothing.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name, |_| crate::failpoint::die());
    };
}

/// With `FAILPOINTS=ledger::connects_late=return`, does first what is otherwise done once a connection stands: as if it
/// took longer than to write the call down.
macro_rules! connects_late {
    ($first:expr) => {
        #[cfg(feature = "failpoints")]
        if fail::eval("ledger::connects_late", |_| ()).is_some() {
            let _ = $first;
        }
    };
}

pub(crate) use {connects_late, failpoint};

/// Ends the process as `kill -9` does, here and now: nothing is flushed, nothing is told.
#[cfg(feature = "failpoints")]
pub(crate) fn die() -> ! {
    let id = std::process::id().to_string();
    drop(std::process::Command::new("kill").args(["-9", &id]).status());
    loop {
        std::thread::park();
    }
}
