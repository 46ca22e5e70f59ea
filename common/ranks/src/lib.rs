//! Several devices that work together: the participants, their exchange of values, and the handling of failures.
//!
//! A *rank* is one device with the thread or process that drives it. [`run`] starts a thread for each device of this process;
//! [`run_in`] makes this process one rank of a [`World`] that torchrun, Open MPI, Slurm or our own [`launch`](launch()) started.
//! Both pass a [`Communicator`] to the same body:
//!
//! ```
//! use common::prelude::*;
//! use ranks::{Options, ReduceOp};
//!
//! # fn main() -> Result<()> {
//! let devices: Vec<Device> = (0..4).map(|_| Device::sim()).collect();
//! let sums = ranks::run(&devices, &Options::default(), |ranks| -> Result<Vec<f32>> {
//!     let stream = ranks.device().stream();
//!     let mut values = stream.clone_htod(&[ranks.rank() as f32, 1.0])?;
//!     ranks.all_reduce(&stream, ReduceOp::Sum, &mut values)?;
//!     ranks.synchronize(&stream)?;
//!     stream.clone_dtoh(&values)
//! })?;
//! assert_eq!(sums, vec![[6.0, 4.0]; 4]);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | `world` | the launchers' variables |
//! | `communicator` | the operations, on device memory |
//! | `nccl` | how GPUs exchange values; [`Nccl`], an all-reduce to compare with |
//! | `hub` | how all others do, on the host: one place where every call is compared and every failure becomes known |
//! | `line`, `server`, `wire` | the way of a rank to the hub, in this process or by TCP |
//! | `launch` | a launcher for one host |
//!
//! **If a rank fails** (its body returns an error, its thread panics, its process dies, it never comes, or its call differs from
//! the others') every other rank's next call ends with [`Error::Ranks`], which names the rank and the event. None waits longer
//! than [`Options::timeout`]; a host that vanishes without closing its connections is missed 2 s later. A process of a world
//! whose rank is too busy to notice is ended after another timeout. A thread cannot be ended: [`run`] returns when every body
//! has.
//!
//! **Reproducibility.** On the host, values are combined in the order of the ranks, so they are the same bits in every run, and
//! for threads the same as for processes. NCCL adds in an order that depends on the number of ranks, their connections, and the
//! size of the array: the same bits for the same GPUs, version and sizes, and others otherwise.

#[cfg(not(feature = "cuda"))]
mod absent;
mod call;
mod communicator;
mod hub;
mod launch;
mod line;
#[cfg(feature = "cuda")]
mod nccl;
mod reduce;
mod server;
mod wire;
mod world;

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

#[cfg(not(feature = "cuda"))]
pub use absent::Nccl;
pub use call::ReduceOp;
pub use communicator::Communicator;
pub use launch::{Launch, launch};
#[cfg(feature = "cuda")]
pub use nccl::Nccl;
pub use reduce::Reducible;
pub use world::{DEFAULT_TIMEOUT, Launcher, MAX_RANKS, Meeting, TIMEOUT_VARIABLE, World, timeout_from_env};

use common::console;
use common::device::Device;
use common::error::{Error, RankFailureKind, Result};
use hub::{Hub, seconds};
use line::Line;
use server::Server;
use wire::Hello;

pub use common::error::{RankFailure, RankFailureKind as FailureKind};

/// Path of the ranks' values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// By NCCL between GPUs if it is installed, else by the host.
    #[default]
    Auto,
    /// By the host: copied from each device, combined in the order of the ranks, copied back. On any device.
    Host,
    /// By NCCL, from GPU to GPU.
    Nccl,
}

/// Settings of ranks that work together. They must be the same for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Path of the values.
    pub transport: Transport,
    /// Maximum time that ranks wait for one another.
    pub timeout: Duration,
    /// Identity of a world's processes: the program and its arguments. Others are refused.
    pub program: String,
}

impl Default for Options {
    /// NCCL if it is available, and 30 s.
    fn default() -> Options {
        Options { transport: Transport::Auto, timeout: DEFAULT_TIMEOUT, program: String::new() }
    }
}

impl Options {
    /// Options for this program with its arguments, with the timeout of `WARP_RANK_TIMEOUT`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the variable is not a number of seconds.
    pub fn from_env() -> Result<Options> {
        let mut digest = Sha256::new();
        // Not where the program lies, which may differ between hosts.
        for argument in std::env::args_os().skip(1) {
            digest.update(argument.as_encoded_bytes());
            digest.update([0]);
        }
        let program = format!("{}:{}", env!("CARGO_PKG_VERSION"), hex(&digest.finalize()));
        Ok(Options { transport: Transport::Auto, timeout: timeout_from_env()?, program })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs `body` once for each device, in a thread of its own, and returns the results in the devices' order.
///
/// # Errors
/// Error of the first rank to fail: its own, or [`Error::Ranks`] if its thread panicked or two ranks did not agree. The others
/// have been notified, and all threads have ended.
pub fn run<T, E>(
    devices: &[Device],
    options: &Options,
    body: impl Fn(&Communicator) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E>
where
    T: Send,
    E: From<Error> + Display + Send,
{
    if devices.is_empty() || devices.len() > MAX_RANKS {
        return Err(Error::Invalid(format!("{} devices: ranks are 1 to {MAX_RANKS}", devices.len())).into());
    }
    let hub = Hub::new(devices.len(), options.timeout);
    let rank = |(rank, device): (usize, &Device)| -> Result<T, E> {
        let line = Line::to_hub(&hub, rank).map_err(Error::Ranks)?;
        one(Arc::new(line), device, options.transport, &body)
    };
    let results: Vec<Result<T, E>> = thread::scope(|scope| {
        let threads: Vec<_> = devices.iter().enumerate().map(|it| scope.spawn(move || rank(it))).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, Result<T, E>>| {
            // A panic is caught where the rank can still be named.
            thread.join().unwrap_or_else(|_| Err(Error::Invalid("a rank's thread panicked".to_owned()).into()))
        };
        threads.into_iter().map(ended).collect()
    });
    let first = hub.failure().map(|failure| failure.rank);
    first_error(results, first)
}

/// All results, or the error of the rank that failed first.
fn first_error<T, E>(results: Vec<Result<T, E>>, first: Option<usize>) -> Result<Vec<T>, E> {
    let (mut values, mut errors) = (Vec::with_capacity(results.len()), Vec::new());
    for (rank, result) in results.into_iter().enumerate() {
        match result {
            Ok(value) => values.push(value),
            Err(error) => errors.push((rank, error)),
        }
    }
    let at = errors.iter().position(|(rank, _)| Some(*rank) == first).unwrap_or(0);
    if errors.is_empty() { Ok(values) } else { Err(errors.swap_remove(at).1) }
}

/// Runs `body` as this process's rank of `world`, on `device`, once all other processes are there.
///
/// # Errors
/// [`Error::Ranks`] if another rank failed or never came, [`Error::Invalid`] if rank 0 cannot listen at its port, or the error
/// of `body`, which the other ranks get too.
pub fn run_in<T, E>(
    world: &World,
    device: &Device,
    options: &Options,
    body: impl FnOnce(&Communicator) -> Result<T, E>,
) -> Result<T, E>
where
    E: From<Error> + Display,
{
    launch::watch_the_launcher();
    let Some(meeting) = &world.meeting else {
        let line = Line::to_hub(&Hub::new(1, options.timeout), 0).map_err(Error::Ranks)?;
        return one(Arc::new(line), device, options.transport, body);
    };
    let hello = Hello {
        rank: world.rank as u32,
        size: world.size as u32,
        job: world.job.clone(),
        program: options.program.clone(),
        // Who cannot take part says so to the others before it ends.
        backend: communicator::describe(device, options.transport)
            .unwrap_or_else(|error| format!("nothing, since {error}")),
        secret: launch::secret(),
    };
    // Rank 0 serves until the others have heard the end.
    let (line, _server) = if world.rank == 0 {
        let hub = Hub::new(world.size, options.timeout);
        let line = Line::to_hub(&hub, 0).map_err(Error::Ranks)?;
        let server = Server::listen(meeting, hub, hello)?;
        (line, Some(server))
    } else {
        (Line::connect(meeting, &hello, options.timeout).map_err(Error::Ranks)?, None)
    };
    let line = Arc::new(line);
    end_with_the_others(&line);
    one(line, device, options.transport, body)
}

/// Ends this process if a rank has failed and this one does not come back to notice, for whatever reason.
fn end_with_the_others(line: &Arc<Line>) {
    let (line, timeout) = (Arc::downgrade(line), line.timeout());
    thread::spawn(move || {
        let mut failed: Option<(Instant, RankFailure)> = None;
        // The line goes when the rank's work is over.
        while let Some(line) = line.upgrade() {
            match &failed {
                None => failed = line.failure().map(|failure| (Instant::now(), failure)),
                Some((since, failure)) if since.elapsed() > timeout => {
                    let rank = line.rank();
                    console::error(format!("{failure}; rank {rank} did not notice within {}", seconds(timeout)));
                    std::process::exit(1);
                }
                Some(_) => {}
            }
            drop(line);
            thread::sleep(server::interval(timeout));
        }
    });
}

/// The life of a rank: it waits for all others, works, and waits for them again. The others learn of its end in any
/// case.
fn one<T, E>(
    line: Arc<Line>,
    device: &Device,
    transport: Transport,
    body: impl FnOnce(&Communicator) -> Result<T, E>,
) -> Result<T, E>
where
    E: From<Error> + Display,
{
    let (rank, size) = (line.rank(), line.size());
    let work = || -> Result<T, E> {
        let communicator = Communicator::form(line.clone(), device, transport)?;
        let value = body(&communicator)?;
        communicator.finish()?;
        Ok(value)
    };
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            // If the others failed first, this changes nothing.
            line.fail(RankFailureKind::Failed, format!("rank {rank} of {size} failed: {error}"));
            Err(error)
        }
        Err(panic) => {
            let said =
                panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(|s| s.as_str()));
            let sentence = format!("rank {rank} of {size} panicked: {}", said.unwrap_or("it did not say why"));
            line.fail(RankFailureKind::Ended, sentence.clone());
            let failure = RankFailure { rank, kind: RankFailureKind::Ended, sentence };
            Err(Error::Ranks(line.failure().unwrap_or(failure)).into())
        }
    }
}
