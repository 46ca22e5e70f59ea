//! Place of this process among those that a launcher started: its rank, and the address where rank 0 waits for the
//! others.
//!
//! | launcher | rank, size, local rank | rank 0's host | its port |
//! | --- | --- | --- | --- |
//! | torchrun | `RANK`, `WORLD_SIZE`, `LOCAL_RANK` | `MASTER_ADDR` | `MASTER_PORT` |
//! | Open MPI | `OMPI_COMM_WORLD_RANK`, `…_SIZE`, `…_LOCAL_RANK` | `MASTER_ADDR`, or this host if all ranks run here | `MASTER_PORT`, or 29500 |
//! | Slurm | `SLURM_PROCID`, `SLURM_NTASKS`, `SLURM_LOCALID` | `MASTER_ADDR`, or the first of `SLURM_STEP_NODELIST` | `MASTER_PORT`, or one that follows from the job's number |
//!
//! `WARP_RANK_PORT` replaces the port, whatever the launcher. torchrun's own agent may listen at `MASTER_PORT`, and reports it
//! in `TORCHELASTIC_USE_AGENT_STORE`: then ours is the next one.

use std::fmt;
use std::time::Duration;

use common::error::{Error, Result};
use common::text::printable;

/// Maximum ranks of a world.
pub const MAX_RANKS: usize = 1024;

/// The variable with the seconds that ranks wait for one another.
pub const TIMEOUT_VARIABLE: &str = "WARP_RANK_TIMEOUT";

/// Default time that ranks wait for one another.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The port if nothing else gives one: the default of PyTorch's launchers.
const DEFAULT_PORT: u16 = 29_500;

/// Program that started the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// None: this process is the world.
    Nobody,
    /// torchrun, or any program that sets the same variables, such as our own launcher.
    Torchrun,
    /// Open MPI's mpirun.
    OpenMpi,
    /// Slurm's srun.
    Slurm,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Nobody => "no launcher",
            Launcher::Torchrun => "torchrun's variables",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Slurm => "Slurm",
        })
    }
}

/// Address where rank 0 listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Name or address of the host.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An IPv6 address has colons of its own.
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// This process among those that run the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// This process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// This process among those on the same host, from 0: the GPU that it takes.
    pub local_rank: usize,
    /// Address where rank 0 listens; `None` if there is no other process.
    pub meeting: Option<Meeting>,
    /// Program that started them.
    pub launcher: Launcher,
    /// The launcher's name for the run, so that ranks of two runs do not join each other; may be empty.
    pub job: String,
}

impl World {
    /// A world of one process.
    pub fn alone() -> World {
        World { rank: 0, size: 1, local_rank: 0, meeting: None, launcher: Launcher::Nobody, job: String::new() }
    }

    /// Reads the launcher's variables; without any it is a world of one.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the name of the variable that is missing, not a number, or in conflict with another.
    pub fn from_env() -> Result<World> {
        World::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// [`World::from_env`] with these variables instead of the environment's. An empty one counts as unset.
    ///
    /// # Errors
    /// Same as [`World::from_env`].
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<World> {
        let variables = Variables { get: &get };
        if variables.has("RANK") {
            return variables.torchrun();
        }
        if variables.has("OMPI_COMM_WORLD_RANK") {
            return variables.open_mpi();
        }
        // Slurm's batch script has a task's number too, but is no step: only srun starts several tasks.
        if variables.has("SLURM_PROCID") && (variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEPID")) {
            return variables.slurm();
        }
        for name in ["WORLD_SIZE", "LOCAL_RANK"] {
            if variables.has(name) {
                return Err(invalid(format!("{name} is set, but RANK is not: torchrun sets both")));
            }
        }
        Ok(World::alone())
    }
}

/// The time that ranks wait for one another: `WARP_RANK_TIMEOUT` in seconds, or 30 s.
///
/// # Errors
/// [`Error::Invalid`] if it is not a number of seconds from 0.1 to 86400.
pub fn timeout_from_env() -> Result<Duration> {
    let text = std::env::var_os(TIMEOUT_VARIABLE).unwrap_or_default();
    timeout(&text.to_string_lossy())
}

fn timeout(text: &str) -> Result<Duration> {
    if text.is_empty() {
        return Ok(DEFAULT_TIMEOUT);
    }
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(invalid(format!("{TIMEOUT_VARIABLE} is `{}`: seconds from 0.1 to 86400 are needed", printable(text)))),
    }
}

struct Variables<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The number in a variable, from `least` to `most`; `because` names the program that should have set it.
    fn number(&self, name: &str, least: usize, most: usize, because: &str) -> Result<usize> {
        let text = self.text(name).ok_or_else(|| invalid(format!("{name} is not set: {because}")))?;
        // `parse` takes a sign; a rank has none.
        let number = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            invalid(format!("{name} is `{}`: a whole number from {least} to {most} is needed", shortened(&text)))
        })
    }

    /// Size, rank and local rank, from variables of these names.
    fn ranks(&self, [size, rank, local]: [&str; 3], because: &str) -> Result<(usize, usize, usize)> {
        let count = self.number(size, 1, MAX_RANKS, because)?;
        let below = |name: &str| {
            let number = self.number(name, 0, MAX_RANKS - 1, because)?;
            let rule = format!("{name} is {number}, but {size} is {count}: it must be less");
            if number < count { Ok(number) } else { Err(invalid(rule)) }
        };
        Ok((count, below(rank)?, below(local)?))
    }

    fn torchrun(&self) -> Result<World> {
        const BECAUSE: &str = "torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT";
        let (size, rank, local_rank) = self.ranks(["WORLD_SIZE", "RANK", "LOCAL_RANK"], BECAUSE)?;
        let meeting = if size == 1 {
            None
        } else {
            let host =
                self.host("MASTER_ADDR")?.ok_or_else(|| invalid(format!("MASTER_ADDR is not set: {BECAUSE}")))?;
            let mut port = self.port("MASTER_PORT")?;
            if self.text("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") {
                port = port.map(|port| port.checked_add(1).unwrap_or(port - 1));
            }
            let port = self.port("WARP_RANK_PORT")?.or(port);
            Some(Meeting { host, port: port.ok_or_else(|| invalid(format!("MASTER_PORT is not set: {BECAUSE}")))? })
        };
        let job = self.text("TORCHELASTIC_RUN_ID").unwrap_or_default();
        Ok(World { rank, size, local_rank, meeting, launcher: Launcher::Torchrun, job })
    }

    fn open_mpi(&self) -> Result<World> {
        const BECAUSE: &str = "Open MPI's mpirun sets it";
        let names = ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"];
        let (size, rank, local_rank) = self.ranks(names, BECAUSE)?;
        let meeting = if size == 1 {
            None
        } else {
            let local_size = "OMPI_COMM_WORLD_LOCAL_SIZE";
            let all_here = self.has(local_size) && self.number(local_size, 1, MAX_RANKS, BECAUSE)? == size;
            let host = match self.host("MASTER_ADDR")? {
                Some(host) => host,
                None if all_here => "127.0.0.1".to_owned(),
                None => {
                    return Err(invalid(
                        "MASTER_ADDR is not set, and the ranks run on several hosts: pass the name of rank 0's host with \
                         `mpirun -x MASTER_ADDR=HOST`",
                    ));
                }
            };
            Some(Meeting { host, port: self.any_port(DEFAULT_PORT)? })
        };
        let job = self.text("PMIX_NAMESPACE").unwrap_or_default();
        Ok(World { rank, size, local_rank, meeting, launcher: Launcher::OpenMpi, job })
    }

    fn slurm(&self) -> Result<World> {
        const BECAUSE: &str = "Slurm's srun sets it";
        let (size, rank, local_rank) = self.ranks(["SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"], BECAUSE)?;
        // Scripts for PyTorch export it.
        if self.has("WORLD_SIZE") {
            let exported = self.number("WORLD_SIZE", 1, MAX_RANKS, BECAUSE)?;
            if exported != size {
                return Err(invalid(format!(
                    "WORLD_SIZE is {exported}, but SLURM_NTASKS is {size}: they must be equal"
                )));
            }
        }
        let job = self.text("SLURM_JOB_ID").unwrap_or_default();
        let step = self.text("SLURM_STEP_ID").or_else(|| self.text("SLURM_STEPID")).unwrap_or_default();
        let meeting = if size == 1 {
            None
        } else {
            let lists = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
            let host = match self.host("MASTER_ADDR")? {
                Some(host) => host,
                None => match lists.iter().find_map(|name| Some((name, self.text(name)?))) {
                    Some((name, list)) => first_host(&list)
                        .map_err(|reason| invalid(format!("{name} is `{}`: {reason}", shortened(&list))))?,
                    None => {
                        return Err(invalid(
                            "neither MASTER_ADDR nor SLURM_STEP_NODELIST is set: rank 0's host is unknown",
                        ));
                    }
                },
            };
            // Below 32768, where Linux begins to hand out ports by itself; steps of one job get ports of their own.
            let number = |text: &str| {
                text.bytes()
                    .filter(u8::is_ascii_digit)
                    .fold(0, |n: u64, digit| n.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
            };
            let port = 20_000 + (number(&job).wrapping_add(number(&step)) % 10_000) as u16;
            Some(Meeting { host, port: self.any_port(port)? })
        };
        Ok(World { rank, size, local_rank, meeting, launcher: Launcher::Slurm, job: format!("{job}.{step}") })
    }

    fn any_port(&self, otherwise: u16) -> Result<u16> {
        Ok(self.port("WARP_RANK_PORT")?.or(self.port("MASTER_PORT")?).unwrap_or(otherwise))
    }

    fn port(&self, name: &str) -> Result<Option<u16>> {
        if !self.has(name) {
            return Ok(None);
        }
        Ok(Some(self.number(name, 1, usize::from(u16::MAX), "")? as u16))
    }

    fn host(&self, name: &str) -> Result<Option<String>> {
        let Some(host) = self.text(name) else { return Ok(None) };
        let refused = |reason| invalid(format!("{name} is `{}`: {reason}", shortened(&host)));
        check_host(&host).map_err(refused)?;
        Ok(Some(host))
    }
}

fn invalid(sentence: impl Into<String>) -> Error {
    Error::Invalid(sentence.into())
}

/// A value for a message: limited in length, without characters that a terminal obeys.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", printable(&text[..end])),
        None => printable(text).into_owned(),
    }
}

/// The reason why it is neither a name nor an address.
fn check_host(host: &str) -> Result<(), &'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '%');
    match host {
        _ if host.len() > 253 => Err("a host's name has at most 253 characters"),
        _ if host.is_empty() || !host.chars().all(allowed) => Err("it is neither the name of a host nor an address"),
        _ => Ok(()),
    }
}

/// The first host of Slurm's list: `node03` of `node[03-05,9],login`, `r1n07` of `r[1-2]n[07,08]`.
fn first_host(list: &str) -> Result<String, &'static str> {
    let mut host = String::new();
    let mut rest = list;
    while let Some(at) = rest.find(['[', ',']) {
        host.push_str(&rest[..at]);
        if rest[at..].starts_with(',') {
            check_host(&host)?;
            return Ok(host);
        }
        let group = &rest[at + 1..];
        let end = group.find(']').ok_or("a bracket is not closed")?;
        let digits = group[..end].split([',', '-']).next().unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("between brackets numbers are needed");
        }
        host.push_str(digits);
        rest = &group[end + 1..];
    }
    host.push_str(rest);
    check_host(&host)?;
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The world of `NAME=value` separated by spaces.
    fn world(variables: &str) -> Result<World, String> {
        let pairs: Vec<(&str, &str)> = variables.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        let get = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        World::from_variables(get).map_err(|error| error.to_string())
    }

    fn who(variables: &str) -> String {
        let world = world(variables).unwrap();
        let meeting = world.meeting.map_or("nowhere".to_owned(), |meeting| meeting.to_string());
        format!("{}/{} local {} at {meeting}", world.rank, world.size, world.local_rank)
    }

    const TORCHRUN: &str = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=10.0.0.7 MASTER_PORT=29400";
    const MPI: &str = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1";
    const SLURM: &str = "SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_STEP_ID=2 SLURM_JOB_ID=1234567";

    #[test]
    fn each_launcher_is_understood() {
        assert_eq!(world(""), Ok(World::alone()));
        // What a shell's start-up file exports makes no world.
        assert_eq!(world("MASTER_ADDR=a MASTER_PORT=1 RANK="), Ok(World::alone()));
        assert_eq!(who(TORCHRUN), "5/8 local 1 at 10.0.0.7:29400");
        assert_eq!(who(&format!("{TORCHRUN} TORCHELASTIC_USE_AGENT_STORE=True")), "5/8 local 1 at 10.0.0.7:29401");
        assert_eq!(who(&format!("{TORCHRUN} WARP_RANK_PORT=7000")), "5/8 local 1 at 10.0.0.7:7000");
        assert_eq!(who("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0"), "0/1 local 0 at nowhere");
        assert_eq!(who("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=::1 MASTER_PORT=7"), "1/2 local 1 at [::1]:7");
        assert_eq!(who(&format!("{MPI} OMPI_COMM_WORLD_LOCAL_SIZE=2")), "1/2 local 1 at 127.0.0.1:29500");
        assert_eq!(who(&format!("{MPI} MASTER_ADDR=n1 MASTER_PORT=7000")), "1/2 local 1 at n1:7000");
        assert_eq!(who(&format!("{SLURM} SLURM_STEP_NODELIST=node[03-05,9]")), "3/4 local 1 at node03:24569");
        assert_eq!(who(&format!("{SLURM} MASTER_ADDR=n1 MASTER_PORT=7000")), "3/4 local 1 at n1:7000");
        // mpirun inside of a Slurm job, and a batch script outside of srun.
        assert_eq!(who(&format!("{SLURM} {MPI} MASTER_ADDR=n1")), "1/2 local 1 at n1:29500");
        assert_eq!(world("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0"), Ok(World::alone()));
        assert_eq!(
            world(SLURM).unwrap_err(),
            "neither MASTER_ADDR nor SLURM_STEP_NODELIST is set: rank 0's host is unknown"
        );
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let long = "9".repeat(400);
        for (variables, sentence) in [
            ("WORLD_SIZE=2", "WORLD_SIZE is set, but RANK is not: torchrun sets both"),
            ("RANK=0 LOCAL_RANK=0", "WORLD_SIZE is not set: torchrun sets RANK, WORLD_SIZE"),
            ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "LOCAL_RANK is not set"),
            ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_PORT=1", "MASTER_ADDR is not set"),
            ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=a", "MASTER_PORT is not set"),
            ("RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK is 2, but WORLD_SIZE is 2: it must be less"),
            ("RANK=1 WORLD_SIZE=2 LOCAL_RANK=3", "LOCAL_RANK is 3, but WORLD_SIZE is 2: it must be less"),
            ("RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK is `-1`: a whole number from 0 to 1023 is needed"),
            ("RANK=+1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK is `+1`: a whole number"),
            ("RANK=0 WORLD_SIZE=0 LOCAL_RANK=0", "WORLD_SIZE is `0`: a whole number from 1 to 1024 is needed"),
            ("RANK=0 WORLD_SIZE=4294967297 LOCAL_RANK=0", "WORLD_SIZE is `4294967297`: a whole number"),
            ("RANK=0 WORLD_SIZE=\u{1b}[2J LOCAL_RANK=0", "WORLD_SIZE is `\\u{1b}[2J`"),
            ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=a MASTER_PORT=65536", "MASTER_PORT is `65536`"),
            ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=a;b MASTER_PORT=1", "MASTER_ADDR is `a;b`: it is neither"),
            (MPI, "MASTER_ADDR is not set, and the ranks run on several hosts"),
            (
                "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
                "OMPI_COMM_WORLD_LOCAL_RANK is not set: Open MPI's mpirun",
            ),
            ("SLURM_PROCID=3 SLURM_STEPID=0 SLURM_LOCALID=1", "SLURM_NTASKS is not set: Slurm's srun sets it"),
            (
                "SLURM_PROCID=0 SLURM_STEPID=0 SLURM_LOCALID=0 SLURM_NTASKS=4 WORLD_SIZE=8",
                "WORLD_SIZE is 8, but SLURM_NTASKS is 4: they must be equal",
            ),
        ] {
            let error = world(variables).unwrap_err();
            assert!(error.contains(sentence), "{variables}: {error}");
        }
        let error = world(&format!("RANK={long} WORLD_SIZE=2 LOCAL_RANK=0")).unwrap_err();
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn the_first_host_of_a_list_is_found_and_a_hostile_list_is_refused() {
        for (list, first) in [
            ("node[03-05,9]", "node03"),
            ("node[9,11-12],login", "node9"),
            ("a,b", "a"),
            ("gpu-1.cluster", "gpu-1.cluster"),
            ("r[1-2]n[07,08]", "r1n07"),
            ("r[1-2]n[07,08]-ib,x[3]", "r1n07-ib"),
        ] {
            assert_eq!(first_host(list).as_deref(), Ok(first), "{list}");
        }
        let long = "n".repeat(300);
        for list in
            ["", ",a", "[", "node[", "node[]", "node[-3]", "node[a-b]", "node]", "a b", "$(reboot)", &long, "node[1;2]"]
        {
            assert!(first_host(list).is_err(), "{list}");
        }
        let error = world(&format!("{SLURM} SLURM_STEP_NODELIST=node[")).unwrap_err();
        assert_eq!(error, "SLURM_STEP_NODELIST is `node[`: a bracket is not closed");
    }

    #[test]
    fn the_timeout_is_a_number_of_seconds() {
        assert_eq!(timeout("").unwrap(), DEFAULT_TIMEOUT);
        assert_eq!(timeout("1.5").unwrap(), Duration::from_millis(1500));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "soon", "\u{1b}"] {
            let error = timeout(wrong).unwrap_err().to_string();
            assert!(error.starts_with("WARP_RANK_TIMEOUT is `") && !error.contains('\u{1b}'), "{error}");
        }
    }
}
