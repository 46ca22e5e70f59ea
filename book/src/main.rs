//! `cargo run -p book`: the book, checked and built.

use std::{env, error::Error, io, process::ExitCode};

use bench::{
    command::{self, Shell},
    table::Format,
};
use book::{Book, BookError, cli::Cli, commands, playground::child, serve};
use clap::Parser;

/// The port to serve on, unless it is taken.
const PORT: u16 = 3000;

fn main() -> ExitCode {
    // The grader starts the program that it is in.
    if env::args_os().nth(1).is_some_and(|word| word == assignments::child::SUBCOMMAND) {
        return if assignments::child::answer().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let cli = Cli::parse();
    if cli.run_kernel {
        return if child::answer().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    // Without a reader there are still files to write, or pages to serve.
    Shell::new(Format::Text).going_on_if(true).run(|shell| run(&cli, shell))
}

fn run(cli: &Cli, shell: &mut Shell) -> Result<(), Box<dyn Error>> {
    let book = Book::of_course()?;
    let words = cli.check.as_ref().or(cli.update.as_ref()).filter(|words| !words.is_empty());
    let book = match words {
        Some(words) => book.making(words.clone()),
        None if cli.unchecked => book.making(Vec::new()),
        None => book,
    };
    if let Some(words) = &cli.commands {
        return Ok(commands::run(&book, words, |line| shell.print(line).map_err(io::Error::other))?);
    }
    if cli.update.is_some() {
        for page in book.update()? {
            shell.print(&format!("updated {}\n", page.display()))?;
        }
    }
    if cli.check.is_some() {
        let nowhere = tempfile::tempdir()?;
        let report = book.build(nowhere.path())?;
        return Ok(shell.print(&format!("{} pages in order\n", report.pages))?);
    }
    let output = book.default_output();
    if cli.serve || cli.open {
        let server = match cli.port {
            Some(port) => serve::Server::start(book, output, port)?,
            None => match serve::Server::start(book.clone(), output.clone(), PORT) {
                Err(BookError::Listen { .. }) => serve::Server::start(book, output, 0)?,
                started => started?,
            },
        };
        shell.print(&format!("the book is at {} (Ctrl-C ends)\n", server.link()))?;
        if cli.open
            && let Err(error) = server.open()
        {
            command::warn(format!("cannot open it in a browser: {error}"));
        }
        server.run()?;
        return Ok(());
    }
    let built = if cli.unchecked {
        book.render(&output)?;
        "the book, unchecked".to_owned()
    } else {
        format!("{} pages built", book.build(&output)?.pages)
    };
    let index = output.join("index.html");
    shell.print(&format!(
        "{built}: {}\nTo edit and run kernels in it: cargo run -p book -- --open\n",
        index.display()
    ))?;
    Ok(())
}
