//! The pages, a file each.

pub(crate) mod approvals;
pub(crate) mod home;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod traces;
