//! `cargo run -p book`: the book, checked and built.

use std::{error::Error, ffi::OsStr, io, process::ExitCode};

use book::{
    Book,
    cli::Cli,
    commands::{self, Choice},
    serve,
};
use clap::Parser;
use common::{command::Shell, table::Format};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Without a reader there are still files to write, or pages to serve.
    Shell::new(Format::Text).going_on_if(true).run(|shell| run(&cli, shell))
}

fn run(cli: &Cli, shell: &mut Shell) -> Result<(), Box<dyn Error>> {
    let book = Book::of_course()?;
    if let Some(words) = &cli.commands {
        let choice = if cli.rest { Choice::Rest } else { Choice::With(words.clone()) };
        return Ok(commands::run(&book, &choice, |line| shell.print(line).map_err(io::Error::other))?);
    }
    if cli.update {
        for page in book.update()? {
            shell.print(&format!("updated {}\n", page.display()))?;
        }
    }
    if cli.check {
        let nowhere = tempfile::tempdir()?;
        let report = book.build(nowhere.path())?;
        return Ok(shell.print(&format!("{} pages in order\n", report.pages))?);
    }
    let output = book.default_output();
    if cli.serve {
        let server = serve::Server::start(book, output, cli.port)?;
        shell.print(&format!("the book is at {} (Ctrl-C ends)\n", server.url()))?;
        if cli.open {
            show(server.url())?;
        }
        server.run()?;
        return Ok(());
    }
    let report = book.build(&output)?;
    let index = output.join("index.html");
    shell.print(&format!("{} pages built: {}\n", report.pages, index.display()))?;
    if cli.open {
        show(&index)?;
    }
    Ok(())
}

/// `target` is a file or a URL.
fn show(target: impl AsRef<OsStr>) -> io::Result<()> {
    let target = target.as_ref();
    open::that_detached(target).map_err(|error| {
        let name = target.display();
        io::Error::new(error.kind(), format!("cannot open {name} in a browser: {error}"))
    })
}
