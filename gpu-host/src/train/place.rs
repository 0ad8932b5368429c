//! Rank of a process among those of a training, from the environment variables of `torchrun`: `WORLD_SIZE`, `RANK`,
//! `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::error::WorldError;
use super::secret::{Secret, VARIABLE};

/// Time limit for a reply; no step takes this long.
pub(super) const SILENCE: Duration = Duration::from_secs(600);

/// Rank of this process and address of rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) local_rank: usize,
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) secret: Option<Secret>,
}

impl Default for Place {
    fn default() -> Self {
        Self { rank: 0, size: 1, local_rank: 0, address: String::new(), port: 0, secret: None }
    }
}

impl Place {
    /// Reads the environment. Without `WORLD_SIZE` this is the only process. Otherwise the secret of the training is
    /// read from `secret_file` or `TIDEGATE_SECRET`; neither is needed if all processes are on one machine.
    ///
    /// # Errors
    /// If a variable is missing or out of range, or the secret cannot be read or is too short.
    pub fn from_env(secret_file: Option<&Path>) -> Result<Self, WorldError> {
        Self::parse(secret_file, |name| std::env::var(name).ok())
    }

    fn parse(secret_file: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, WorldError> {
        let wrong = |name, needed| WorldError::Variable { name, found: variable(name).unwrap_or_default(), needed };
        let number = |name: &'static str, needed, least: usize, most: usize| {
            let found = variable(name).and_then(|text| text.trim().parse().ok());
            found.filter(|number| (least..=most).contains(number)).ok_or_else(|| wrong(name, needed))
        };
        if variable("WORLD_SIZE").is_none() {
            return Ok(Self::default());
        }
        let size = number("WORLD_SIZE", "a number from 1 to 65536", 1, 1 << 16)?;
        if size == 1 {
            return Ok(Self::default());
        }
        let rank = number("RANK", "a number below WORLD_SIZE", 0, size - 1)?;
        let local_rank = match variable("LOCAL_RANK") {
            Some(_) => number("LOCAL_RANK", "the number of a GPU, from 0", 0, 1 << 10)?,
            None => 0,
        };
        let address = variable("MASTER_ADDR").filter(|address| !address.is_empty());
        let address = address.ok_or_else(|| wrong("MASTER_ADDR", "the name or address of rank 0's machine"))?;
        let port = number("MASTER_PORT", "a port from 1 to 65534", 1, 65_534)? as u16;
        // torchrun itself listens on MASTER_PORT in this case.
        let taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text == "True");
        let secret = Secret::of(secret_file, variable(VARIABLE))?;
        Ok(Self { rank, size, local_rank, address, port: port + u16::from(taken), secret })
    }

    /// Whether this is rank 0, which writes the files.
    pub const fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Number of processes.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Number of the GPU of this machine that this process uses.
    pub const fn local_rank(&self) -> usize {
        self.local_rank
    }
}

/// Converts an I/O error to the error for a lost or silent process.
pub(super) fn lost(rank: usize) -> impl Fn(io::Error) -> WorldError {
    move |source| match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => WorldError::Silent { rank, seconds: SILENCE.as_secs() },
        io::ErrorKind::UnexpectedEof => WorldError::Lost { rank, source: io::Error::other("its connection is closed") },
        _ => WorldError::Lost { rank, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> Result<Place, WorldError> {
        Place::parse(None, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_gives_the_rank_of_a_process() {
        assert_eq!(place(&[]).unwrap(), Place::default());
        assert_eq!(place(&[("WORLD_SIZE", "1"), ("RANK", "0")]).unwrap(), Place::default());
        let all = [
            ("WORLD_SIZE", "4"),
            ("RANK", "3"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node0"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ];
        let all_set = place(&all).unwrap();
        assert_eq!((all_set.rank, all_set.size, all_set.local_rank, all_set.port), (3, 4, 1, 29_501));
        assert_eq!(place(&all[..5]).unwrap().port, 29_500);
        let message = |at: usize, value| {
            let mut changed = all;
            changed[at].1 = value;
            place(&changed).unwrap_err().to_string()
        };
        assert_eq!(
            message(1, "4"),
            "RANK is \"4\", but must be a number below WORLD_SIZE: \
             start the training with torchrun, or set the variable"
        );
        assert!(message(0, "0").starts_with("WORLD_SIZE is \"0\""));
        assert!(message(3, "").starts_with("MASTER_ADDR is \"\""));
        assert!(message(4, "65535").starts_with("MASTER_PORT"));
        assert!(place(&all[..4]).unwrap_err().to_string().starts_with("MASTER_PORT is \"\""));
    }
}
