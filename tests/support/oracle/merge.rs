//! Merges parts of equal length: their sum or, by option, their difference, their product (the first by the second, and so on), mean,
//! maximum, magnitude, or the blend a t + b (1 - t) of three parts a, b, t.

use super::sums::{mean, sum};
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let size = cell.output_size();
    assert!(x.len().is_multiple_of(size), "parts of {size} features");
    let feature = |k: usize| {
        let parts: Vec<Bounded> = x.iter().skip(k).step_by(size).copied().collect();
        let fold = |f: fn(Bounded, Bounded) -> Bounded| parts.iter().copied().reduce(f).expect("there is a part");
        if cell.has("blend") {
            let &[a, b, t] = parts.as_slice() else { panic!("a blend has three parts, not {}", parts.len()) };
            a.times(t).plus(b.times(t.one_minus()))
        } else if cell.has("norm") {
            let squares: Vec<Bounded> = parts.iter().map(|&part| part.times(part)).collect();
            sum(&squares).sqrt()
        } else if cell.has("divide") {
            let &[a, b] = parts.as_slice() else { panic!("a quotient has two parts, not {}", parts.len()) };
            a.over(b)
        } else if cell.has("subtract") {
            let &[a, b] = parts.as_slice() else { panic!("a difference has two parts, not {}", parts.len()) };
            a.minus(b)
        } else if cell.has("multiply") {
            fold(Bounded::times)
        } else if cell.has("maximum") {
            fold(Bounded::max)
        } else if cell.has("average") {
            mean(&parts)
        } else {
            sum(&parts)
        }
    };
    (0..size).map(feature).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};

    #[test]
    fn parts_are_merged_by_each_operation() {
        let merged = |options: &str| {
            let nodes = format!(
                r#"[{{"name": "n", "cell": "merge", "inputs": ["x"], "input_size": 6, "hidden_size": 2,
                    "output_size": 2, "options": [{options}]}}]"#
            );
            once(&model(6, &nodes, &[]), &[8.0, 2.0, 4.0, 6.0, 0.25, 1.0])
        };
        assert_eq!(merged(""), [12.25, 9.0]);
        assert_eq!(merged(r#""add""#), [12.25, 9.0]);
        assert_eq!(merged(r#""multiply""#), [8.0, 12.0]);
        assert_eq!(merged(r#""average""#), [12.25 / 3.0, 3.0]);
        assert_eq!(merged(r#""maximum""#), [8.0, 6.0]);
        assert_eq!(merged(r#""blend""#), [5.0, 2.0]);
        assert_eq!(merged(r#""norm""#), [80.0625_f64.sqrt(), 41.0_f64.sqrt()]);
    }
}
