//! A verdict whenever a file is saved, and single keys for the commands that usually follow.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use bench::command::Shell;
use console::{Key, Style, Term};

use super::show::ShowArgs;
use super::{Session, compiler, hint, list, show};
use crate::exercise::Exercise;

/// Interval at which the file is checked. Asking for its modification time costs nothing, works on every file system, and does
/// not mind that many editors save by renaming.
const PAUSE: Duration = Duration::from_millis(50);

const KEYS: &str = "h hint   l list   s show   n next   q quit";

/// An event that `watch` reacts to.
enum Event {
    Saved,
    Key(char),
    /// The terminal is gone.
    Closed,
}

/// Watches the exercise of that id, else the next one.
pub(crate) fn run(session: &Session, id: Option<&str>, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let Some(mut exercise) = session.chosen(id)? else { return Ok(shell.print("All exercises pass.\n")?) };
    let keys = keys();
    let mut file = Watched::new(exercise);
    shell.print_wrapped(&list::introduction(exercise))?;
    verdict(session, exercise, keys.is_some(), shell)?;
    loop {
        match file.wait(keys.as_ref()) {
            Event::Saved => {
                if keys.is_some() {
                    // If that fails, the verdict comes below the last one.
                    let _ = Term::stdout().clear_screen();
                }
                verdict(session, exercise, keys.is_some(), shell)?;
            }
            Event::Key('h') => shell.print_wrapped(&hint::another(session, exercise))?,
            Event::Key('l') => report(list::list(session, &[], shell), shell)?,
            Event::Key('s') => report(show::show(session, exercise, &ShowArgs::default(), shell), shell)?,
            Event::Key('n') => {
                exercise = following(session, exercise);
                file = Watched::new(exercise);
                shell.print_wrapped(&format!("\n{}", list::introduction(exercise)))?;
                verdict(session, exercise, true, shell)?;
            }
            Event::Key('q') | Event::Closed => return Ok(()),
            Event::Key(_) => {}
        }
    }
}

/// The next exercise of which no pass is known, from `exercise` on and round.
fn following<'s>(session: &'s Session, exercise: &'s Exercise) -> &'s Exercise {
    let at = session.exercises.iter().position(|one| one.id == exercise.id).unwrap_or(0);
    let (before, after) = session.exercises.split_at(at);
    let mut round = after.iter().skip(1).chain(before);
    round.find(|one| !session.is_known_to_pass(one)).unwrap_or(exercise)
}

fn verdict(session: &Session, exercise: &Exercise, has_keys: bool, shell: &mut Shell) -> Result<()> {
    let start = Instant::now();
    match session.check(exercise) {
        Ok(verdict) => {
            let keys = if has_keys { KEYS } else { "" };
            let took = start.elapsed().as_secs_f64();
            shell.print("\n")?;
            shell.print_styled(verdict.styled(shell.terminal().width))?;
            shell.print_styled([(Style::new().dim(), format!("checked in {took:.2} s   {keys}\n"))])?;
        }
        Err(error) => report(Err(error), shell)?,
    }
    Ok(())
}

/// Reports an error, and goes on.
fn report(result: Result<()>, shell: &mut Shell) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => {
            let pieces = [(Style::new().red(), "error"), (Style::new(), &format!(": {error:#}\n"))];
            Ok(shell.print_styled(pieces)?)
        }
    }
}

/// Keys as they are pressed; `None` without a terminal.
fn keys() -> Option<Receiver<char>> {
    let term = Term::stdout();
    if !std::io::stdin().is_terminal() || !term.is_term() {
        return None;
    }
    let (sender, keys) = mpsc::channel();
    std::thread::spawn(move || {
        // The terminal is as it was whenever this returns, so not again after the last key.
        while let Ok(key) = term.read_key() {
            let Key::Char(key) = key else { continue };
            if sender.send(key).is_err() || key == 'q' {
                break;
            }
        }
    });
    Some(keys)
}

/// A file, and its state at the last check.
struct Watched {
    file: PathBuf,
    seen: Option<Stamp>,
}

/// Modification time and size.
type Stamp = (SystemTime, u64);

impl Watched {
    fn new(exercise: &Exercise) -> Watched {
        let file = exercise.file("exercise.cu");
        Watched { seen: stamp(&file), file }
    }

    fn wait(&mut self, keys: Option<&Receiver<char>>) -> Event {
        loop {
            match keys.map(|keys| keys.recv_timeout(PAUSE)) {
                None => std::thread::sleep(PAUSE),
                Some(Ok(key)) => return Event::Key(key),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) => return Event::Closed,
            }
            let mut now = stamp(&self.file);
            if now.is_none() || now == self.seen {
                continue;
            }
            // An editor may write in parts.
            loop {
                std::thread::sleep(PAUSE / 2);
                let later = stamp(&self.file);
                if later == now {
                    break;
                }
                now = later;
            }
            self.seen = now;
            return Event::Saved;
        }
    }
}

/// `None` while there is no file, as when an editor replaces it.
fn stamp(file: &Path) -> Option<Stamp> {
    let about = file.metadata().ok()?;
    Some((about.modified().ok()?, about.len()))
}
