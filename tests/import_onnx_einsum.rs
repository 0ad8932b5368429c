//! `Einsum` where it is a matrix product: compared with sums over all labels, and refused otherwise.

use std::collections::BTreeMap;

use tidegate_model::canonical::Tensor;
use tidegate_model::format::onnx::open;
use tidegate_model::format::onnx::proto::{AttributeProto, GraphProto};
use tidegate_tests::import::{self, ALONE};
use tidegate_tests::onnx::{Tensors, bytes, floats, node, outputs, port, tensor, values};
use tidegate_tests::tolerance::worst;

/// y = einsum(a, b). An operand of numbers is a weight; another one is a function of the input x.
fn graph(equation: &str, shapes: [&[usize]; 2], weights: Option<usize>, out: &[usize]) -> Vec<u8> {
    let names = ["a", "b"];
    let mut nodes = Vec::new();
    for (k, op) in ["Relu", "Tanh"].into_iter().enumerate().filter(|(k, _)| Some(*k) != weights) {
        nodes.push(node(op, &["x"], &[names[k]]));
    }
    let equation = AttributeProto {
        name: "equation".into(),
        s: equation.as_bytes().to_vec(),
        kind: 3,
        ..AttributeProto::default()
    };
    let mut product = node("Einsum", &names, &["y"]);
    product.attribute.push(equation);
    nodes.push(product);
    let of_x = shapes[usize::from(weights == Some(0))];
    bytes(GraphProto {
        node: nodes,
        initializer: weights.map(|k| floats(names[k], shapes[k], weight(shapes[k]))).into_iter().collect(),
        input: vec![port("x", of_x)],
        output: vec![port("y", out)],
        ..GraphProto::default()
    })
}

fn weight(shape: &[usize]) -> Vec<f32> {
    values(shape.iter().product(), 1.7)
}

/// The sum over all values of the labels that are not in the result.
fn einsum(equation: &str, operands: [&Tensor; 2]) -> Vec<f64> {
    let (labels, result) = equation.split_once("->").unwrap();
    let labels: Vec<&str> = labels.split(',').collect();
    let mut sizes = BTreeMap::new();
    for (labels, operand) in labels.iter().zip(operands) {
        sizes.extend(labels.chars().zip(operand.shape.iter().copied()));
    }
    let names: Vec<char> = sizes.keys().copied().collect();
    let count: usize = sizes.values().product();
    let len = result.chars().map(|label| sizes[&label]).product();
    let mut sums = vec![0.0; len];
    for k in 0..count {
        let mut rest = k;
        let mut at = BTreeMap::new();
        for name in &names {
            at.insert(*name, rest % sizes[name]);
            rest /= sizes[name];
        }
        let place = |labels: &str| labels.chars().fold(0, |place, label| place * sizes[&label] + at[&label]);
        let factors = labels.iter().zip(operands).map(|(labels, operand)| f64::from(operand.data[place(labels)]));
        sums[place(result)] += factors.product::<f64>();
    }
    sums
}

#[test]
fn an_einsum_that_is_a_matrix_product_is_one() {
    type Row = (&'static str, [&'static [usize]; 2], Option<usize>, &'static [usize]);
    let rows: [Row; 15] = [
        ("bd,dk->bk", [&[1, 4], &[4, 3]], Some(1), &[1, 3]),
        ("bd,kd->bk", [&[1, 4], &[3, 4]], Some(1), &[1, 3]),
        ("bid,dk->bik", [&[1, 2, 4], &[4, 3]], Some(1), &[1, 2, 3]),
        ("bdi,kd->bki", [&[1, 4, 2], &[3, 4]], Some(1), &[1, 3, 2]),
        ("kd,bid->bik", [&[3, 4], &[1, 2, 4]], Some(0), &[1, 2, 3]),
        ("bij,bkj->bik", [&[1, 2, 4], &[1, 2, 4]], None, &[1, 2, 2]),
        ("bij,bkj->bki", [&[1, 2, 4], &[1, 2, 4]], None, &[1, 2, 2]),
        ("bij,bik->bjk", [&[1, 2, 4], &[1, 2, 4]], None, &[1, 4, 4]),
        // With a vector.
        ("bd,bd->b", [&[1, 4], &[1, 4]], None, &[1]),
        ("bij,j->bi", [&[1, 2, 4], &[4]], Some(1), &[1, 2]),
        ("j,bij->bi", [&[4], &[1, 2, 4]], Some(0), &[1, 2]),
        // In groups, each with weights of its own.
        ("btgi,gih->btgh", [&[1, 3, 2, 4], &[2, 4, 5]], Some(1), &[1, 3, 2, 5]),
        ("gih,btgi->bhtg", [&[2, 4, 5], &[1, 3, 2, 4]], Some(0), &[1, 5, 3, 2]),
        ("bgtij,jgih->bgth", [&[1, 2, 3, 4, 2], &[2, 2, 4, 3]], Some(1), &[1, 2, 3, 3]),
        ("bij,ij->bij", [&[1, 2, 4], &[2, 4]], Some(1), &[1, 2, 4]),
    ];
    for (equation, shapes, weights, out) in rows {
        let of_x = shapes[usize::from(weights == Some(0))].to_vec();
        let x = values(of_x.iter().product(), 0.9);
        let (_, got) =
            outputs(&graph(equation, shapes, weights, out), &ALONE, &Tensors::from([tensor("x", &of_x, x.clone())]));
        let got = &got.unwrap()["y"];
        let operand = |k: usize| -> Tensor {
            let data = match (Some(k) == weights, k) {
                (true, _) => weight(shapes[k]),
                (false, 0) => x.iter().map(|x| x.max(0.0)).collect(),
                (false, _) => x.iter().map(|x| x.tanh()).collect(),
            };
            Tensor { shape: shapes[k].to_vec(), data }
        };
        let expected = einsum(equation, [&operand(0), &operand(1)]);
        assert_eq!((got.shape.as_slice(), got.data.len()), (out, expected.len()), "{equation}");
        let most = worst(got.data.iter().zip(expected).map(|(&got, y)| (f64::from(got) - y).abs()));
        assert!(most <= 1e-6, "{equation}: {most:e}");
    }
}

#[test]
fn any_other_einsum_is_refused_with_its_equation() {
    let shapes: [&[usize]; 2] = [&[1, 4, 4], &[4, 4]];
    for equation in ["bij,ij->b", "bii,ij->bj", "bij,jk", "...ij,jk->...ik", "bij,jk->kib,x", "", "bij->bji"] {
        let error =
            open(&graph(equation, shapes, Some(1), &[1, 4, 4]), "x.onnx", &ALONE).expect_err("it must be refused");
        let line = import::line(&error, 512);
        assert!(line.contains("Einsum") && line.contains(&format!("{equation:?}")), "{equation}: {line}");
    }
}
