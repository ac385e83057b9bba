//! The pages, a file each.

pub(crate) mod approvals;
pub(crate) mod editor;
pub(crate) mod home;
pub(crate) mod new;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod traces;
