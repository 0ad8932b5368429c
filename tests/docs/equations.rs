//! Converts equations in LaTeX to the notation of the module documentation, so that both can be compared.
//!
//! LaTeX has the time as a subscript where the module documentation has a prime for the new value: `h_t` is h', `h_{t-1}`
//! is h, and `x_t` is x. White space, braces and alignment do not count.

/// Follows a letter with a tilde if another value has the same letter without one.
const ANOTHER: char = '\0';

/// LaTeX commands, and their notation in the module documentation.
const COMMANDS: [(&str, &str); 34] = [
    ("alpha", "α"),
    ("ast", "*"),
    ("begin{aligned}", ""),
    ("begin{cases}", ""),
    ("beta", "β"),
    ("bmod", "mod"),
    ("cdot", "·"),
    ("circledast", "⊛"),
    ("dots", "…"),
    ("end{aligned}", ""),
    ("end{cases}", ""),
    ("eta", "η"),
    ("exp", "exp"),
    ("gamma", "γ"),
    ("ge", "≥"),
    ("lfloor", "⌊"),
    ("ln", "ln"),
    ("max", "max"),
    ("min", "min"),
    ("nu", "ν"),
    ("odot", "⊙"),
    ("operatorname", ""),
    ("qquad", ""),
    ("rfloor", "⌋"),
    ("sigma", "σ"),
    ("sqrt", "√"),
    ("sum", "Σ"),
    ("tanh", "tanh"),
    ("tau", "τ"),
    ("text", ""),
    ("theta", "θ"),
    ("varphi", "φ"),
    ("zeta", "ζ"),
    // Punctuation.
    ("\\", ""),
];

/// The equations of module documentation without white space, braces and backticks.
pub fn bare(equations: &str) -> String {
    equations.replace("...", "…").chars().filter(|c| !c.is_whitespace() && !"{}`".contains(*c)).collect()
}

/// Converts equations in LaTeX to the form of [`bare`]. `written` is the module documentation; it determines which values
/// have a prime or a tilde.
pub fn read(latex: &str, written: &str) -> String {
    let mut text = latex.replace('&', "");
    text = fractions(&text);
    text = powers(&text);
    text = tildes(&text, written);
    text = commands(&text);
    bare(&times(&text, written))
}

/// The argument in braces at the start of a text, and the rest.
fn argument(text: &str) -> (&str, &str) {
    let inner = text.strip_prefix('{').unwrap_or_else(|| panic!("an argument in braces, not {text:?}"));
    let mut depth = 1;
    for (at, c) in inner.char_indices() {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return (&inner[..at], &inner[at + 1..]);
        }
    }
    panic!("braces without an end: {text:?}")
}

/// Puts a text in parentheses, unless it is a root or one symbol.
fn grouped(text: &str) -> String {
    if text.starts_with("\\sqrt") {
        return roots(text);
    }
    if text.contains(['+', '-', ' ']) { format!("({text})") } else { text.to_owned() }
}

fn fractions(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\\frac") else { return roots(text) };
    let (above, rest) = argument(rest);
    let (below, rest) = argument(rest);
    roots(before) + &grouped(above) + " / " + &grouped(below) + &fractions(rest)
}

fn roots(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\\sqrt") else { return text.to_owned() };
    let (of, rest) = argument(rest);
    format!("{before}√({of}){}", roots(rest))
}

fn powers(text: &str) -> String {
    let Some((before, rest)) = text.split_once("^{") else { return text.to_owned() };
    let braced = format!("{{{rest}");
    let (of, rest) = argument(&braced);
    format!("{before}^{}{}", grouped(of), powers(rest))
}

/// Converts `\tilde{c}` to c~ if `written` has c~, otherwise to c, marked as another value than a plain c.
fn tildes(text: &str, written: &str) -> String {
    let Some((before, rest)) = text.split_once("\\tilde") else { return text.to_owned() };
    let (of, rest) = argument(rest);
    let value = if written.contains(&format!("{of}~")) { format!("{of}~") } else { format!("{of}{ANOTHER}") };
    format!("{before}{value}{}", tildes(rest, written))
}

fn commands(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut read = parts.next().unwrap_or_default().to_owned();
    let mut is_new_line = false;
    for part in parts {
        // Two backslashes end a line: the part between them is empty.
        if part.is_empty() && !is_new_line {
            is_new_line = true;
            continue;
        }
        if is_new_line {
            is_new_line = false;
            read += part;
            continue;
        }
        let known =
            COMMANDS.iter().filter(|(command, _)| part.starts_with(command)).max_by_key(|(command, _)| command.len());
        let (command, written) = known.unwrap_or_else(|| panic!("\\{part} is not in COMMANDS"));
        read += written;
        read += &part[command.len()..];
    }
    read
}

/// Converts times to primes, for the values that have one in `written`. A further subscript stays: `c_{t-1,k}` is `c_k`.
fn times(text: &str, written: &str) -> String {
    let Some((before, rest)) =
        text.split_once("_t").into_iter().chain(text.split_once("_{t")).min_by_key(|(before, _)| before.len())
    else {
        return text.to_owned();
    };
    let in_braces = text[before.len()..].starts_with("_{");
    let (within, rest) = if in_braces { rest.split_once('}').expect("braces end") } else { ("", rest) };
    let (is_old, further) = within.strip_prefix("-1").map_or((false, within), |further| (true, further));
    let mut read = before.to_owned();
    let base = read.chars().next_back().unwrap_or_default();
    if base == ANOTHER {
        read.pop();
    } else if !is_old && written.contains(&format!("{base}'")) {
        read.push('\'');
    }
    read + &further.replacen(',', "_", 1) + &times(rest, written)
}

#[cfg(test)]
mod tests {
    use super::{bare, read};

    #[test]
    fn latex_reads_as_the_module_documentation_writes() {
        let written = bare("c' = f ⊙ c + i ⊙ g    coupled: i = 1 - f\nh'_k = √(x_k + 1) / (e^(c - 2) + tanh(c~))");
        let latex = "c_t &= f_t \\odot c_{t-1} + i_t \\odot g_t && \\text{coupled: } i_t = 1 - f_t \\\\\n\
                     h_{t,k} &= \\frac{\\sqrt{x_k + 1}}{e^{c_{t-1} - 2} + \\tanh(\\tilde{c}_t)}";
        assert_eq!(read(latex, &written), written);
        for (right, wrong) in
            [("c_{t-1} +", "c_t +"), ("\\odot g", "g"), ("{x_k + 1}", "{x_k - 1}"), ("f_t \\odot", "i_t \\odot")]
        {
            assert_ne!(read(&latex.replacen(right, wrong, 1), &written), written, "{wrong}");
        }
    }
}
