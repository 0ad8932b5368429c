//! Commands and files. Every command is printed before it runs and its time after it, all on standard error.
//!
//! Steps on a thread [`Beside`] others print to a log, which appears as a whole when the thread is joined.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use wait4::{ResUse, Wait4};

use crate::Failure;

/// The root folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("xtask lies two folders deep").to_owned()
}

/// Converts an error of a file to a message that names the file.
pub fn about<E: Display>(path: &Path) -> impl Fn(E) -> Failure {
    move |error| format!("{}: {error}", path.display())
}

/// Reads a text file.
pub fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(about(path))
}

/// Writes a file.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    fs::write(path, content).map_err(about(path))
}

/// `cargo` with arguments, in a folder of the repository.
pub fn cargo(folder: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo sets these variables for xtask itself.
    for (name, _) in std::env::vars_os() {
        let of_xtask = name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR");
        if of_xtask {
            command.env_remove(name);
        }
    }
    command.current_dir(root().join(folder)).args(arguments);
    command
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = [program].into_iter().chain(command.get_args()).map(OsStr::to_string_lossy);
    let words: Vec<String> =
        words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word.into_owned() }).collect();
    let folder = command.get_current_dir().and_then(|folder| folder.strip_prefix(root()).ok());
    match folder.filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => format!("(cd {} && {})", folder.display(), words.join(" ")),
        None => words.join(" "),
    }
}

thread_local! {
    /// The log of a thread beside others.
    static LOG: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Prints a line on standard error, or in the log of this thread.
pub fn say(line: &str) {
    LOG.with_borrow_mut(|log| match log {
        // Nobody could be told that the log cannot be written.
        Some(log) => drop(writeln!(log, "{line}")),
        None => eprintln!("{line}"),
    });
}

/// Prints a line of a result on standard output, or in the log of this thread.
pub fn result(line: &str) {
    if LOG.with_borrow(Option::is_some) { say(line) } else { println!("{line}") }
}

/// Where a command prints what [`say`] would print.
fn said() -> Stdio {
    LOG.with_borrow(|log| match log.as_ref().map(File::try_clone) {
        Some(Ok(log)) => log.into(),
        _ => io::stderr().into(),
    })
}

/// Work on a thread of its own.
pub struct Beside<T>(thread::JoinHandle<T>, PathBuf);

/// Starts work that shares no build folder with the work of this thread, so that both cores are busy when one of them
/// links.
pub fn beside<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<Beside<T>, Failure> {
    let path = std::env::temp_dir().join(format!("tidegate-xtask-{}-{name}", std::process::id()));
    let log = File::create(&path).map_err(about(&path))?;
    let thread = thread::spawn(move || {
        LOG.set(Some(log));
        work()
    });
    Ok(Beside(thread, path))
}

impl<T> Beside<T> {
    /// Waits for the work, and prints its log.
    pub fn join(self) -> T {
        let done = self.0.join().expect("the work does not panic");
        eprint!("{}", fs::read_to_string(&self.1).unwrap_or_default());
        let _ = fs::remove_file(&self.1);
        done
    }
}

/// Prints the name of a step, runs it, and prints its result and time.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    say(&format!("==> {what}"));
    let start = Instant::now();
    let done = work();
    let verdict = if done.is_ok() { "ok" } else { "FAILED" };
    say(&format!("    {verdict}, {:.1} s: {what}", start.elapsed().as_secs_f64()));
    done
}

/// Runs a command that must succeed, as a step.
pub fn run(what: &str, mut command: Command) -> Result<(), Failure> {
    step(what, || {
        say(&format!("    {}", shown(&command)));
        // Standard output is reserved for the result of the task.
        let child = command.stdout(said()).stderr(said()).spawn().map_err(|error| cannot_start(&command, &error))?;
        let status = wait(child).map_err(|error| format!("`{}`: {error}", shown(&command)))?;
        if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", shown(&command))) }
    })
}

/// Waits for a command, and prints the processor time of its processes.
fn wait(child: Child) -> io::Result<ExitStatus> {
    let ResUse { status, rusage } = child.wait4()?;
    say(&format!("    {:.1} s of processor time", (rusage.utime + rusage.stime).as_secs_f64()));
    Ok(status)
}

/// Whether this is CI, where a check whose tools are missing fails and nobody interrupts a command.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Time limit of [`stream`] in CI. The longest test command takes ten minutes when others run beside it.
const STREAM_LIMIT: Duration = Duration::from_secs(1800);

/// Runs a command and passes every line of its standard output to `line`. Returns whether the command succeeded.
///
/// In CI, where nobody interrupts a command that hangs, it has a time limit.
pub fn stream(command: Command, line: impl FnMut(&str)) -> Result<bool, Failure> {
    stream_within(command, is_ci().then_some(STREAM_LIMIT), line)
}

/// With a limit, the command is the leader of a process group, which is killed as a whole. Ctrl-C does not reach this group.
fn stream_within(mut command: Command, limit: Option<Duration>, mut line: impl FnMut(&str)) -> Result<bool, Failure> {
    let name = shown(&command);
    say(&format!("    {name}"));
    let failed = |error| format!("`{name}`: {error}");
    command.stdout(Stdio::piped()).stderr(said());
    #[cfg(unix)]
    if limit.is_some() {
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    let group = format!("-{}", child.id());
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let late = limit.filter(|&limit| end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout));
        if late.is_some() {
            // If this fails, the limit of CI itself ends the run.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
        late
    });
    for text in BufReader::new(child.stdout.take().expect("it was piped")).split(b'\n') {
        line(&String::from_utf8_lossy(&text.map_err(failed)?));
    }
    let status = wait(child).map_err(failed)?;
    drop(ended);
    match watch.join().expect("the watch does not panic") {
        Some(limit) => Err(format!("`{name}` did not end within {} s", limit.as_secs())),
        None => Ok(status.success()),
    }
}

/// Runs a command that must succeed within a time limit. Returns its standard output.
pub fn output_within(command: Command, limit: Duration) -> Result<String, Failure> {
    output_from(command, Stdio::null(), limit)
}

/// Waits for a process, and kills it after the time limit.
pub fn end_within(child: &mut Child, shown: &str, limit: Duration) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|error| format!("`{shown}`: {error}"))? {
            Some(status) => return Ok(status),
            None if start.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("`{shown}` did not end within {} s", limit.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// [`output_within`] with a standard input.
pub fn output_from(mut command: Command, input: Stdio, limit: Duration) -> Result<String, Failure> {
    say(&format!("    {}", shown(&command)));
    let mut child = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(said())
        .spawn()
        .map_err(|error| cannot_start(&command, &error))?;
    let mut stdout = child.stdout.take().expect("it was piped");
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = end_within(&mut child, &shown(&command), limit)?;
    let bytes = reader.join().expect("the reader does not panic").map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.success() {
        Ok(text)
    } else {
        Err(format!("`{}` failed: {status}; it printed:\n{text}", shown(&command)))
    }
}

fn cannot_start(command: &Command, error: &io::Error) -> Failure {
    format!("cannot start `{}`: {error}", shown(command))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::stream_within;

    #[test]
    #[cfg(unix)]
    fn a_command_that_hangs_is_killed_with_its_processes() {
        let mut hanging = Command::new("sh");
        hanging.args(["-c", "echo started; sleep 600 & wait"]);
        let (mut lines, start) = (Vec::new(), Instant::now());
        let ran = stream_within(hanging, Some(Duration::from_secs(1)), |line| lines.push(line.to_owned()));
        assert_eq!((ran.map_err(|error| error.contains("did not end within 1 s")), lines.len()), (Err(true), 1));
        assert!(start.elapsed() < Duration::from_secs(60), "the pipe stayed open");
        assert_eq!(stream_within(Command::new("true"), Some(Duration::from_secs(60)), |_| {}), Ok(true));
        assert_eq!(stream_within(Command::new("false"), None, |_| {}), Ok(false));
    }
}
