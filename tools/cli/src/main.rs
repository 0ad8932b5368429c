//! `tidegate`: the command line.

mod carried;
mod command;

use std::io::{self, StdoutLock, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tidegate_model::budget;
use tidegate_model::data::hide_guarded_panics;

#[derive(Parser)]
#[command(name = "tidegate", version, about, long_about = None, arg_required_else_help = true)]
#[command(after_help = "Start here:    tidegate demo\nExit codes:    0 success, 1 bad input, 2 wrong arguments")]
struct Cli {
    /// Memory that reading a file may take, in MiB [default: 8 times the file and 64]
    #[arg(long, global = true, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory: Option<u64>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(command::demo::Args),
    Import(command::import::Args),
    Pack(command::pack::Args),
    New(command::new::Args),
    Inspect(command::inspect::Args),
    Run(command::run::Args),
    Eval(command::eval::Args),
    Listen(command::listen::Args),
    Denoise(command::denoise::Args),
    Verify(command::verify::Args),
    Export(command::export::Args),
    Keygen(command::keygen::Args),
    Sign(command::sign::Args),
    VerifySignature(command::verify_signature::Args),
    ChangeKey(command::change_key::Args),
    Flash(command::flash::Args),
    Bench(command::bench::Args),
    Zoo(command::zoo::Args),
    Completions(command::completions::Args),
    Man(command::man::Args),
}

/// Standard output. If its reader closes the pipe, as in `tidegate inspect FILE | head -1`, the rest of the text is dropped
/// and the command goes on, because it may have files to write.
struct Output(Option<StdoutLock<'static>>);

impl Output {
    fn unless_closed<T>(
        &mut self,
        otherwise: T,
        write: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(out) = &mut self.0 else { return Ok(otherwise) };
        match write(out) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.0 = None;
                Ok(otherwise)
            }
            done => done,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), StdoutLock::flush)
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    hide_guarded_panics();
    if let Some(mib) = cli.memory {
        budget::allow(mib << 20);
    }
    let mut out = Output(Some(io::stdout().lock()));
    let done = match cli.command {
        Command::Demo(args) => command::demo::run(&args, &mut out),
        Command::Import(args) => command::import::run(&args, &mut out),
        Command::Pack(args) => command::pack::run(&args, &mut out),
        Command::New(args) => command::new::run(&args, &mut out),
        Command::Inspect(args) => command::inspect::run(&args, &mut out),
        Command::Run(args) => command::run::run(&args, &mut out),
        Command::Eval(args) => command::eval::run(&args, &mut out),
        Command::Listen(args) => command::listen::run(&args, &mut out),
        Command::Denoise(args) => command::denoise::run(&args, &mut out),
        Command::Verify(args) => command::verify::run(&args, &mut out),
        Command::Export(args) => command::export::run(&args, &mut out),
        Command::Keygen(args) => command::keygen::run(&args, &mut out),
        Command::Sign(args) => command::sign::run(&args, &mut out),
        Command::VerifySignature(args) => command::verify_signature::run(&args, &mut out),
        Command::ChangeKey(args) => command::change_key::run(&args, &mut out),
        Command::Flash(args) => command::flash::run(&args, &mut out),
        Command::Bench(args) => command::bench::run(&args, &mut out),
        Command::Zoo(args) => command::zoo::run(&args, &mut out),
        Command::Completions(args) => command::completions::run(&args, Cli::command(), &mut out),
        Command::Man(args) => command::man::run(&args, Cli::command(), &mut out),
    };
    let done = done.and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            command::say(&format!("tidegate: {failure}"));
            ExitCode::FAILURE
        }
    }
}
