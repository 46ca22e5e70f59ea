//! GPUs that exchange values by NCCL. [`library`] is the one place that names its functions.

mod connection;
mod library;
mod one_thread;

pub(crate) use connection::Connection;
pub(crate) use library::version;
pub use one_thread::Nccl;
