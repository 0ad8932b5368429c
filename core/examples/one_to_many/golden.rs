//! Values of the golden case `tf1__OutputProjectionWrapper__gru_i3h8t12b1`, written by `tests/examples.rs`.

/// Tolerance for the outputs of a runtime.
pub const TOLERANCE: f32 = 5e-6;
/// Initial state of the generator: h.
pub const CONTEXT: [f32; 8] = [0.14582002, -0.902566, -1.2886251, -0.18811655, -0.41757318, 0.287974, -0.31322074, -0.9926055];
/// First input of the generator.
pub const FIRST_INPUT: [f32; 3] = [1.0626758, 1.5362867, 0.5427817];
/// First output of the generator.
pub const FIRST_OUTPUT: [f32; 3] = [0.7089367, 1.1109242, 1.0787909];
/// Outputs of the generator when each output is the next input, in f64.
pub const GENERATED: [[f32; 3]; 12] = [
    [0.7089367, 1.1109241, 1.0787909],
    [0.4909315, 1.0900768, 0.74907815],
    [0.37616724, 0.986859, 0.4931079],
    [0.32971886, 0.90649, 0.33260372],
    [0.32624072, 0.85413915, 0.24557383],
    [0.3429842, 0.8231787, 0.20613277],
    [0.36421353, 0.8064033, 0.19324824],
    [0.38230196, 0.7982253, 0.19303763],
    [0.3952014, 0.7948871, 0.19763388],
    [0.40347937, 0.7940534, 0.20318343],
    [0.40843293, 0.7943601, 0.20813602],
    [0.41125363, 0.7950593, 0.21208876],
];
