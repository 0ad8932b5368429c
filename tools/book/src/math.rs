//! Blocks in the language `math`: LaTeX, which becomes MathML. Browsers show it without scripts and fonts of our own.

use pulldown_latex::config::DisplayMode;
use pulldown_latex::{Parser, RenderConfig, Storage, push_mathml};

use crate::Failure;

const START: &str = "```math\n";
const END: &str = "\n```\n";

/// The page with MathML in place of its blocks.
pub fn replace(page: &str) -> Result<String, Failure> {
    let (mut text, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(START) {
        let (latex, after) = after.split_once(END).ok_or("a block of math has no end")?;
        // A blank line would end the HTML.
        text += before;
        text += &format!("<div class=\"math\">{}</div>\n", mathml(latex)?.replace('\n', " "));
        rest = after;
    }
    Ok(text + rest)
}

/// An equation as MathML, on lines of its own.
fn mathml(latex: &str) -> Result<String, Failure> {
    let storage = Storage::new();
    let events: Vec<_> = Parser::new(latex, &storage)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("this is not LaTeX: {error}\n{latex}"))?;
    let mut text = String::new();
    let config = RenderConfig { display_mode: DisplayMode::Block, ..RenderConfig::default() };
    let events = events.into_iter().map(Ok::<_, pulldown_latex::ParserError>);
    push_mathml(&mut text, events, config).map_err(|error| format!("{error}\n{latex}"))?;
    // pulldown-latex 0.8 does not escape this operator.
    Ok(text.replace("<mo><</mo>", "<mo>&lt;</mo>"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn blocks_become_mathml_and_the_rest_stays() {
        let page = "before\n\n```math\nh_t = \\tanh(W x_t)\n```\n\nafter\n";
        let text = super::replace(page).unwrap();
        assert!(
            text.starts_with("before\n\n<div class=\"math\"><math") && text.ends_with("</math></div>\n\nafter\n"),
            "{text}"
        );
        assert!(text.contains("tanh"), "{text}");
        let text = super::replace("```math\n\\text{a_b} < 1\n```\n").unwrap();
        assert!(text.contains("<mtext>a_b</mtext><mo>&lt;</mo>"), "{text}");
    }

    #[test]
    fn wrong_latex_is_refused() {
        assert!(super::replace("```math\n\\nosuch{x}\n```\n").is_err());
        assert!(super::replace("```math\n{x\n```\n").is_err());
        assert!(super::replace("```math\nx\n").is_err());
    }
}
