//! Tasks of phase 4.

use super::Task;

pub(super) const TASKS: &[(&str, Task)] = &[];
