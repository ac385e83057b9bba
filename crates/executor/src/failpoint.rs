//! Places where a test stops the process, to see what becomes of a call that was under way.

/// With the feature `failpoints`, does what the environment of the test says; else nothing.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name);
    };
}

pub(crate) use failpoint;
