// Pictures of frames: every canvas shows the same stretch of time.

/** Colors of the labels, distinguishable on light and on dark paper. */
const HUES = [210, 25, 130, 280, 0, 170, 50, 320, 90, 240, 190, 340];

export function colorOf(label) {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  return `hsl(${HUES[label % HUES.length]} 75% ${isDark ? 65 : 40}%)`;
}

/** Draws the frames whose ends are between two numbers of samples. */
export function draw(canvases, frames, [from, to], sampleRate, names) {
  const shown = frames.filter(({ sample }) => sample > from && sample <= to);
  const x = (sample) => (sample - from) / (to - from);
  const columns = shown.map((frame, index) => {
    const before = shown[index - 1]?.sample ?? frame.sample - (shown[index + 1]?.sample - frame.sample || 0);
    return { frame, left: x(before), right: x(frame.sample), seconds: (frame.sample - before) / sampleRate };
  });
  waveform(surface(canvases.waveform), columns);
  heat(surface(canvases.features), columns.map((column) => [column, column.frame.features]), true);
  posteriors(surface(canvases.posteriors), columns, x, names);
  heat(surface(canvases.state), columns.map((column) => [column, column.frame.state]), false);
  work(surface(canvases.work), columns);
}

/** An empty drawing context with the canvas's size in device pixels, and the page's colors. */
function surface(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const style = getComputedStyle(canvas);
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  const context = canvas.getContext("2d");
  context.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  return {
    context,
    width: canvas.width,
    height: canvas.height,
    ink: style.getPropertyValue("--ink"),
    line: style.getPropertyValue("--line"),
    accent: style.getPropertyValue("--accent"),
  };
}

function waveform({ context, width, height, accent }, columns) {
  context.fillStyle = accent;
  for (const { frame, left, right } of columns) {
    const [top, bottom] = [frame.high, frame.low].map((sample) => ((1 - sample) / 2) * height);
    context.fillRect(left * width, top, Math.max((right - left) * width, 1), Math.max(bottom - top, 1));
  }
}

/** Stops of the colors from the least to the greatest value: those of viridis, after Smith and van der Walt. */
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const COLORS = Array.from({ length: 256 }, (_, index) => {
  const at = (index / 255) * (STOPS.length - 1);
  const [low, high] = [STOPS[Math.floor(at)], STOPS[Math.ceil(at)]];
  return [...low.map((part, channel) => part + (high[channel] - part) * (at % 1)), 255];
});

/** Rows of values as colors, from the least to the greatest shown: of each element by itself, or of all. */
function heat({ context, width, height }, columns, each) {
  const len = columns[0]?.[1].length ?? 0;
  // Models without a state have nothing to show.
  if (len === 0) return;
  const least = new Float32Array(len).fill(Infinity);
  const most = new Float32Array(len).fill(-Infinity);
  for (const [, row] of columns) {
    row.forEach((value, index) => {
      least[index] = Math.min(least[index], value);
      most[index] = Math.max(most[index], value);
    });
  }
  if (!each) {
    const reach = least.reduce((reach, value, index) => Math.max(reach, -value, most[index]), 0);
    least.fill(-reach);
    most.fill(reach);
  }
  // One pixel for each value, then stretched.
  const picture = new OffscreenCanvas(columns.length, len);
  const pixels = new ImageData(columns.length, len);
  columns.forEach(([, row], column) => {
    row.forEach((value, index) => {
      const share = (value - least[index]) / (most[index] - least[index] || 1);
      pixels.data.set(COLORS[Math.round(255 * share)], 4 * ((len - 1 - index) * columns.length + column));
    });
  });
  picture.getContext("2d").putImageData(pixels, 0, 0);
  const [start, end] = [columns[0][0].left * width, columns.at(-1)[0].right * width];
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, start, 0, end - start, height);
}

function posteriors({ context, width, height, line, ink }, columns, x, names) {
  const decisions = columns.filter(({ frame }) => frame.posteriors !== null);
  context.strokeStyle = line;
  context.strokeRect(0, height / 2, width, 0);
  const count = Math.min(decisions[0]?.frame.posteriors.length ?? 0, HUES.length);
  for (let label = 0; label < count; label += 1) {
    context.beginPath();
    context.strokeStyle = colorOf(label);
    context.lineWidth = 2 * devicePixelRatio;
    decisions.forEach(({ frame, right }) => {
      context.lineTo(right * width, (1 - Math.max(0, Math.min(1, frame.posteriors[label]))) * (height - 4) + 2);
    });
    context.stroke();
  }
  for (const { frame } of columns.filter(({ frame }) => frame.event !== null)) {
    const at = x(frame.event.sample) * width;
    context.fillStyle = colorOf(frame.event.label);
    context.fillRect(at, 0, 2 * devicePixelRatio, height);
    context.fillStyle = ink;
    context.textAlign = at > width / 2 ? "right" : "left";
    context.fillText(names[frame.event.label] ?? "", at + (at > width / 2 ? -4 : 6), 14 * devicePixelRatio);
  }
}

function work({ context, width, height, line, accent }, columns) {
  const loads = columns.map(({ frame, seconds }) => frame.spent / (1000 * seconds));
  // The height is at least 5 percent of real time.
  const most = loads.filter(Number.isFinite).reduce((most, load) => Math.max(most, load), 0.05);
  context.fillStyle = accent;
  columns.forEach(({ left, right }, index) => {
    const top = (1 - loads[index] / most) * height;
    context.fillRect(left * width, top, Math.max((right - left) * width, 1), height - top);
  });
  context.fillStyle = line;
  context.fillRect(0, (1 - 0.05 / most) * height, width, devicePixelRatio);
}
