//! Tensor names: prefixes, patterns, and similar names.

/// The tensor's name within a prefix, if it is inside the prefix.
pub(crate) fn within<'a>(prefix: &str, tensor: &'a str) -> Option<&'a str> {
    let rest = tensor.strip_prefix(prefix)?;
    if prefix.is_empty() || prefix.ends_with(['.', '/']) {
        return Some(rest);
    }
    rest.strip_prefix(['.', '/'])
}

/// Whether a name matches a pattern with stars: the parts between them occur in this order.
pub(super) fn fits(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

/// The most similar names, nearest first.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Vec<String> {
    /// Number of names in a message, and maximum length that is compared.
    const COUNT: usize = 3;
    const LEN: usize = 128;
    let short = |text: &str| text.chars().take(LEN).collect::<Vec<char>>();
    let wanted = short(name);
    let mut all: Vec<(usize, &String)> = names.take(4096).map(|name| (distance(&wanted, &short(name)), name)).collect();
    all.sort();
    all.into_iter().take(COUNT).map(|(_, name)| name.escape_debug().to_string()).collect()
}

/// Levenshtein distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_a_name_does() {
        assert_eq!(within("lstm", "lstm.weight"), Some("weight"));
        assert_eq!(within("lstm", "lstm2.weight"), None);
        assert_eq!(within("rnn/", "rnn/kernel"), Some("kernel"));
        assert_eq!(within("", "kernel"), Some("kernel"));
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(fits("a/Adam_1", "*/Adam*"));
        assert!(fits("a/Adam", "*/Adam"));
        assert!(!fits("a/Adam_1", "*/Adam"));
        assert!(!fits("Adam", "*/Adam"));
    }

    #[test]
    fn the_nearest_names_come_first() {
        let names = ["fc.bias", "lstm.weight_ih_l0", "lstm.weight_hh_l0"].map(str::to_owned);
        assert_eq!(nearest("lstm.weight_ih_l1", names.iter())[0], "lstm.weight_ih_l0");
    }
}
