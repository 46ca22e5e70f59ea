//! Tasks of phase 3.

use super::Task;

pub(super) const TASKS: &[(&str, Task)] = &[];
