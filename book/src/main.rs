//! `cargo run -p book`: the book, checked and built.

use std::{error::Error, ffi::OsStr, io, process::ExitCode};

use book::{Book, cli::Cli, serve};
use clap::Parser;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Box<dyn Error>> {
    let book = Book::of_course()?;
    if cli.update {
        for page in book.update()? {
            println!("updated {}", page.display());
        }
    }
    if cli.check {
        let nowhere = tempfile::tempdir()?;
        let report = book.build(nowhere.path())?;
        println!("{} pages in order", report.pages);
        return Ok(());
    }
    let output = book.default_output();
    if cli.serve {
        let server = serve::Server::start(book, output, cli.port)?;
        println!("the book is at {} (Ctrl-C ends)", server.url());
        if cli.open {
            show(server.url())?;
        }
        server.run();
        return Ok(());
    }
    let report = book.build(&output)?;
    let index = output.join("index.html");
    println!("{} pages built: {}", report.pages, index.display());
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
