//! The book of the course: checks its pages, renders them and serves them.
//!
//! The pages are Markdown in `book/pages`; mdBook, used as a library, renders them. mdBook only warns about a missing
//! include and says nothing of a broken link, so [`check`] reads the pages first and any problem stops the build.
//!
//! - [`outline`]: what one page offers (headings, ids) and asks for (links)
//! - [`mod@include`]: code taken from the phases' sources, by anchor
//! - [`generated`]: parts of a page that are produced from records or sources, between markers
//! - [`content`]: what such parts are: text, or a picture in a file of its own
//! - [`drawing`]: pictures that explain
//! - [`record`]: tables that a GPU measured or the simulator counted, for such parts
//! - [`session`]: what a profiler wrote, as such a table
//! - [`expression`]: numbers of those tables, and what is computed from them
//! - [`figure`]: single numbers, for sentences
//! - [`relation`]: what sentences say of such numbers, judged
//! - [`verdict`]: whether a prediction came true, by one rule
//! - [`simulator`]: what the `ptx-sim` command prints or draws, for such parts too
//! - [`counters`]: what Nsight Compute counted beside what the simulator counts
//! - [`gpus`]: other GPUs, and which kernels they run
//! - [`edition`]: what is added to the pages as they are rendered, by the modules that follow
//! - [`effort`]: how long a page takes
//! - [`route`]: the weekend and the course, week by week, and a page's place on them
//! - [`listing`]: numbers, a link to the file and a command for code that comes from a source
//! - [`rerun`]: that command, as the head of the kernel says it
//! - [`sources`]: those files, as pages
//! - [`formula`]: LaTeX to MathML
//! - [`cells`]: where a table's cells may break
//! - [`glossary`]: links to its terms, and the index of concepts
//! - [`check`]: all rules over all pages
//! - [`problem`]: what a broken rule is called
//! - [`serve`]: a local server that reloads on change
//! - [`commands`]: what pages tell readers to type, run
//! - [`playground`]: kernels that a reader edits in its pages
//! - [`cli`]: the command line

pub mod cells;
pub mod check;
pub mod cli;
pub mod commands;
pub mod content;
pub mod counters;
pub mod drawing;
pub mod edition;
pub mod effort;
pub mod exercise;
pub mod expression;
pub mod figure;
pub mod formula;
pub mod generated;
pub mod glossary;
pub mod gpus;
pub mod help;
pub mod include;
pub mod listing;
pub mod markup;
pub mod outline;
mod parallel;
pub mod paths;
pub mod playground;
pub mod problem;
pub mod question;
pub mod record;
pub mod relation;
pub mod rerun;
pub mod route;
pub mod serve;
pub mod session;
pub mod simulator;
pub mod sources;
pub mod verdict;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use mdbook_driver::{MDBook, config::Config};

use check::Report;
use generated::{Generator, Workshop};
use parallel::in_parallel;
use problem::Problem;

/// Why the book could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A page could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The pages break the book's own rules.
    #[error("{}", problem::listing(.0))]
    Problems(Vec<Problem>),
    /// mdBook refused `book.toml` or failed to render.
    #[error("mdBook: {0:#}")]
    Render(mdbook_driver::errors::Error),
    /// The server could not listen.
    #[error("cannot serve on 127.0.0.1:{port}: {reason}")]
    Listen {
        /// Requested port.
        port: u16,
        /// The system's reason.
        reason: String,
    },
}

/// The file that a repository's host shows first.
const README: &str = "README.md";

/// A book on disk: the folder that holds its `book.toml`.
#[derive(Clone, Debug)]
pub struct Book {
    root: PathBuf,
    config: Config,
    generators: &'static [Generator],
    made: Option<Vec<String>>,
}

impl Book {
    /// This course's book, found where the crate was compiled, with [`generated::GENERATORS`].
    ///
    /// # Errors
    /// Same as [`Book::open`].
    pub fn of_course() -> Result<Book, BookError> {
        Book::open(Path::new(env!("CARGO_MANIFEST_DIR")), generated::GENERATORS)
    }

    /// Opens the book in `root`.
    ///
    /// # Errors
    /// [`BookError::Render`] if `book.toml` is absent or malformed.
    pub fn open(root: &Path, generators: &'static [Generator]) -> Result<Book, BookError> {
        let config = Config::from_disk(root.join("book.toml")).map_err(BookError::Render)?;
        Ok(Book { root: root.to_owned(), config, generators, made: None })
    }

    /// The same, whose generated parts are made and checked only on pages with one of these words in their path.
    pub fn making(self, words: Vec<String>) -> Book {
        Book { made: Some(words), ..self }
    }

    /// Default folder of the rendered book: `book` in the folder that Cargo builds this program in, wherever that is
    /// (`CARGO_TARGET_DIR`, of a checkout that cannot be written to), otherwise in `target` of the workspace.
    pub fn default_output(&self) -> PathBuf {
        let program = std::env::current_exe().unwrap_or_default();
        let mut folders = program.ancestors().skip(1);
        // Cargo marks it for programs that make backups.
        let target = folders.find(|folder| folder.join("CACHEDIR.TAG").is_file());
        target.map_or_else(|| self.workspace().join("target"), Path::to_owned).join("book")
    }

    /// The folder of the Markdown pages.
    pub fn pages(&self) -> PathBuf {
        self.root.join(&self.config.book.src)
    }

    /// The folder that holds the book's folder; generators look for records and sources below it.
    fn workspace(&self) -> PathBuf {
        self.root.parent().unwrap_or(&self.root).to_owned()
    }

    /// The workspace's README, which has figures from the same records, if there is one: its name and text.
    fn readme(&self) -> Result<Option<(String, String)>, BookError> {
        let path = self.workspace().join(README);
        if path.is_file() { Ok(Some((README.to_owned(), read(&path)?))) } else { Ok(None) }
    }

    fn workshop(&self) -> Workshop {
        Workshop {
            generators: self.generators,
            workspace: self.workspace(),
            pages: self.pages(),
            made: self.made.clone(),
        }
    }

    /// Applies every rule to every page, and to the generated parts of the README.
    ///
    /// # Errors
    /// [`BookError::Read`] if the pages can't be read at all; broken rules are in the report.
    pub fn check(&self) -> Result<Report, BookError> {
        let mut report = check::check(&self.workshop())?;
        if let Some((name, text)) = self.readme()? {
            let stale = generated::stale(&name, &text, &self.workshop(), &mut BTreeSet::new());
            let problem = |(line, reason)| Problem { page: name.clone(), line, reason };
            report.problems.extend(stale.into_iter().map(problem));
            report.files.insert(self.workspace().join(&name));
        }
        let html = self.config.html_config().unwrap_or_default();
        report.files.insert(self.root.join("book.toml"));
        report.files.extend(html.additional_css.iter().map(|css| self.root.join(css)));
        Ok(report)
    }

    /// Checks the pages, then renders them into `output`.
    ///
    /// # Errors
    /// [`BookError::Problems`] with all problems found, and then nothing is rendered; otherwise same as [`Book::render`].
    pub fn build(&self, output: &Path) -> Result<Report, BookError> {
        let report = self.check()?;
        if !report.problems.is_empty() {
            return Err(BookError::Problems(report.problems));
        }
        self.render(output)?;
        Ok(report)
    }

    /// Renders the pages, checked or not, into `output`, whose old content mdBook removes, with what [`edition`] adds to them.
    ///
    /// # Errors
    /// mdBook's own, errors of [`edition::prepare`], and [`BookError::Write`].
    pub fn render(&self, output: &Path) -> Result<(), BookError> {
        let mut config = self.config.clone();
        config.build.build_dir = output.to_owned();
        let repository = config.html_config().unwrap_or_default().git_repository_url;
        let mut book = MDBook::load_with_config(&self.root, config).map_err(BookError::Render)?;
        let shown = edition::prepare(&mut book, &self.workshop())?;
        book.build().map_err(BookError::Render)?;
        shown.write(&self.workspace(), output, repository.as_deref())
    }

    /// Rewrites the generated parts of all pages, of the README and of the phases' sources, and the pictures; returns the files that
    /// changed.
    ///
    /// # Errors
    /// [`BookError::Problems`] if a marker is malformed or a generator fails; the other pages are updated.
    pub fn update(&self) -> Result<Vec<PathBuf>, BookError> {
        let workshop = self.workshop();
        let mut documents: Vec<(PathBuf, String)> =
            check::pages_below(&self.pages())?.into_iter().map(|page| (self.pages().join(&page), page)).collect();
        documents.extend(self.readme()?.into_iter().map(|(name, _)| (self.workspace().join(&name), name)));
        documents.retain(|(_, page)| workshop.makes(page));
        let update = |(path, page): &(PathBuf, String)| {
            let problem = |(line, reason)| BookError::Problems(vec![Problem { page: page.clone(), line, reason }]);
            // Generators may take minutes, in which its author goes on writing.
            let (text, fresh) = loop {
                let text = read(path)?;
                let fresh = generated::refresh(page, &text, &workshop).map_err(problem)?;
                if read(path)? == text {
                    break (text, fresh);
                }
            };
            let mut changed = Vec::new();
            for picture in fresh.pictures {
                write(&picture.path, &picture.svg)?;
                changed.push(picture.path);
            }
            if fresh.text != text {
                write(path, &fresh.text)?;
                changed.push(path.clone());
            }
            Ok(changed)
        };
        let changed: Result<Vec<_>, _> = in_parallel(&documents, update).into_iter().collect();
        Ok(changed?.concat())
    }
}

fn write(path: &Path, text: &str) -> Result<(), BookError> {
    let error = |source| BookError::Write { path: path.to_owned(), source };
    fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| fs::write(path, text)).map_err(error)
}

fn read(path: &Path) -> Result<String, BookError> {
    fs::read_to_string(path).map_err(|source| BookError::Read { path: path.to_owned(), source })
}
