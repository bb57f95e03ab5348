// The report's behaviour: live charts in place of the static ones, switches, tables that sort. Everything the
// page says is in its HTML already; without this script, or without dygraphs, less moves and nothing is lost.
(function () {
  'use strict';

  const root = document.documentElement;
  const data = JSON.parse(document.getElementById('report-data').textContent);
  const live = typeof Dygraph !== 'undefined';
  const state = {across: 'epoch', hidden: new Set(), emphasis: null};
  const charts = [];
  root.classList.add('js');

  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));

  // ------------------------------------------------------------------------------------------------ numbers

  function value(v, format) {
    if (v === null || v === undefined || Number.isNaN(v)) return '–';
    const size = Math.abs(v);
    if (format === 'percent') return v.toFixed(2) + ' %';
    if (format === 'small') return v === 0 ? '0' : v.toExponential(1).replace('e+', 'e');
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) return v.toExponential(2).replace('e+', 'e');
    return String(Number(v.toPrecision(4)));
  }

  function axisValue(v) {
    const size = Math.abs(v);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
      return v.toExponential(6).replace(/\.?0+e/, 'e').replace('e+', 'e');
    }
    return String(Number(v.toPrecision(6)));
  }

  function duration(seconds) {
    const two = (n) => String(n).padStart(2, '0');
    if (seconds < 60) return Number(seconds.toFixed(1)) + ' s';
    const s = Math.round(seconds);
    if (s < 3600) return Math.floor(s / 60) + ' min ' + two(s % 60) + ' s';
    return Math.floor(s / 3600) + ' h ' + two(Math.floor(s % 3600 / 60)) + ' min';
  }

  // Ticks that people would choose: whole epochs; seconds in the steps of a clock.
  function ticks(from, to, pixels) {
    const rough = (to - from) / Math.max(2, pixels / 70);
    let step = Math.pow(10, Math.floor(Math.log10(rough)));
    if (state.across === 'seconds' && rough > 5) {
      const clock = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
      step = clock.find((c) => c >= rough) || 86400 * Math.ceil(rough / 86400);
    } else {
      step = [1, 2, 5, 10].map((f) => f * step).find((s) => s >= rough) || 10 * step;
    }
    if (state.across === 'epoch') step = Math.max(1, Math.round(step));
    const result = [];
    for (let i = Math.ceil(from / step); i * step <= to; i++) {
      const at = Number((i * step).toPrecision(12));
      result.push({v: at, label: state.across === 'epoch' ? String(at) : clockLabel(at, step)});
    }
    return result;
  }

  // Whole decades where there are several, 1, 2 and 5 of each where there are few; less than that is linear.
  function logTicks(from, to, pixels) {
    const decades = Math.log10(to / from);
    const stride = Math.max(1, Math.ceil(decades / Math.max(2, pixels / 36)));
    const result = [];
    for (let d = Math.floor(Math.log10(from)); d <= Math.log10(to); d++) {
      (decades < 2.5 ? [1, 2, 5] : [1]).forEach((digit) => {
        const at = Number(digit + 'e' + d);
        if (d % stride === 0 && at >= from && at <= to) result.push({v: at, label: axisValue(at)});
      });
    }
    return result;
  }

  function clockLabel(seconds, step) {
    if (seconds < 0) return '';
    if (step >= 3600) return seconds / 3600 + ' h';
    if (step >= 60) return seconds / 60 + ' min';
    return Number(seconds.toFixed(2)) + ' s';
  }

  // ------------------------------------------------------------------------------------------------ charts

  const lineName = (run, line) => 'r' + run + 'l' + line;

  // Where an epoch begins on the x axis; its values are drawn where it ends.
  function startOf(run, i) {
    const seconds = run.columns.seconds || [];
    const own = run.columns.epoch_seconds || [];
    if (state.across === 'epoch') return run.columns.epoch[i] - 1;
    if (i > 0 && typeof seconds[i - 1] === 'number') return seconds[i - 1];
    return typeof own[i] === 'number' ? Math.max(0, seconds[i] - own[i]) : 0;
  }

  // dygraphs wants one table: a row for every place on the x axis that some run has. null: this run has no
  // point there, so the line goes on; NaN: the value itself is missing, so the line breaks. A value that held
  // for a whole epoch has two points, where the epoch began and where it ended.
  function table(chart) {
    const lines = chart.lines.length;
    const blank = (x) => [x].concat(new Array(data.runs.length * lines).fill(null));
    const rows = new Map();
    const row = (x, begins) => {
      const key = x + (begins ? ' begins' : ' ends');
      if (!rows.has(key)) rows.set(key, {begins, cells: blank(x)});
      return rows.get(key).cells;
    };
    data.runs.forEach((run, r) => {
      (run.columns[state.across] || []).forEach((x, i) => {
        if (x === null) return;
        const end = row(x, false);
        chart.lines.forEach((line, l) => {
          const column = run.columns[line.key];
          if (!column) return;
          const cell = 1 + r * lines + l;
          end[cell] = column[i] === null ? NaN : column[i];
          if (chart.steps) row(startOf(run, i), true)[cell] = end[cell];
        });
      });
    });
    const ends = Array.from(rows.values()).filter((entry) => !entry.begins).map((entry) => entry.cells[0]);
    chart.stops = ends.sort((a, b) => a - b);
    if (ends.length === 1 && !chart.steps) {  // a lone point stands in the middle, not on the axis
      chart.begins = [true, false, true];
      return [blank(ends[0] - 1), row(ends[0], false), blank(ends[0] + 1)];
    }
    // From the beginning of training, so that all charts have the same axis.
    data.runs.forEach((run) => { if ((run.columns[state.across] || []).length > 0) row(startOf(run, 0), true); });
    const sorted = Array.from(rows.values()).sort((a, b) => a.cells[0] - b.cells[0] || a.begins - b.begins);
    chart.begins = sorted.map((entry) => entry.begins);
    return sorted.map((entry) => entry.cells);
  }

  // The same marks as on the static charts, ten or so a line.
  function markPainter(chart, run) {
    const shape = Math.floor(run / data.colours) % 4;
    const every = Math.max(1, Math.floor(data.runs[run].columns.epoch.length / 10));
    const column = data.runs[run].columns;
    return function (g, name, context, x, y, colour, size, row) {
      const at = g.getValue(row, 0);
      const i = column[state.across].indexOf(at);
      if (i < 0 || chart.begins[row] || (shape > 0 && i % every !== 0)) return;
      context.beginPath();
      context.fillStyle = colour;
      if (shape === 2) context.rect(x - 3, y - 3, 6, 6);
      else if (shape === 3) { context.moveTo(x, y - 4); context.lineTo(x + 4, y + 3); context.lineTo(x - 4, y + 3); }
      else context.arc(x, y, shape === 0 ? 2 : 3.2, 0, 2 * Math.PI);
      context.fill();
    };
  }

  function looks(chart) {
    const style = getComputedStyle(root);
    const pick = (name) => style.getPropertyValue(name).trim();
    const series = {};
    const visibility = [];
    data.runs.forEach((run, r) => {
      const away = state.emphasis !== null && state.emphasis !== r;
      const colour = pick('--run-' + r % data.colours) + (away ? '38' : '');
      chart.lines.forEach((line, l) => {
        series[lineName(r, l)] = {
          color: colour,
          strokeWidth: (line.dashed ? 1.4 : 2.2) + (state.emphasis === r ? 0.6 : 0),
          strokePattern: line.dashed ? [5, 4] : null,
          drawPoints: r >= data.colours,
          pointSize: 2,
          drawPointCallback: markPainter(chart, r),
        };
        visibility.push(!state.hidden.has(r));
      });
    });
    return {series, visibility, gridLineColor: pick('--faint'), axisLineColor: pick('--edge')};
  }

  function startChart(spec) {
    const figure = document.getElementById('chart-' + spec.id);
    const plot = figure.querySelector('.plot');
    const canvas = plot.appendChild(document.createElement('div'));
    canvas.className = 'canvas';
    const across = plot.appendChild(document.createElement('div'));
    across.className = 'across';
    const tip = plot.appendChild(document.createElement('div'));
    tip.className = 'tip';
    tip.hidden = true;
    const chart = {id: spec.id, lines: spec.lines, format: spec.format, log: spec.log, steps: spec.steps, plot, across, tip, at: null};

    // One finger scrolls the page, two zoom the chart.
    const model = Object.assign({}, Dygraph.defaultInteractionModel);
    ['touchstart', 'touchmove', 'touchend'].forEach((name) => {
      const handler = model[name];
      if (handler) model[name] = (event, g, context) => {
        if (name === 'touchend' || event.touches.length > 1) handler(event, g, context);
      };
    });

    const valueTicks = (from, to, pixels, ...rest) => {
      const ofLog = chart.log && from > 0 ? logTicks(from, to, pixels) : [];
      return ofLog.length > 2 ? ofLog : Dygraph.numericLinearTicks(from, to, pixels, ...rest);
    };

    chart.graph = new Dygraph(canvas, table(chart), Object.assign({
      labels: ['x'].concat(...data.runs.map((run, r) => chart.lines.map((line, l) => lineName(r, l)))),
      legend: 'never',
      connectSeparatedPoints: true,
      logscale: chart.log,
      xRangePad: 6,
      yRangePad: 12,
      highlightCircleSize: 3.5,
      interactionModel: model,
      axes: {
        x: {ticker: ticks, drawGrid: false, axisLabelWidth: 64},
        y: {ticker: valueTicks, axisLabelFormatter: axisValue, axisLabelWidth: 46, pixelsPerLabel: 40},
      },
      highlightCallback: (event, x) => select(x, chart),
      unhighlightCallback: () => select(null),
      zoomCallback: (from, to) => follow(chart, from, to),
    }, looks(chart)));
    charts.push(chart);

    plot.tabIndex = 0;
    plot.setAttribute('role', 'group');
    plot.setAttribute('aria-label', figure.querySelector('h3').textContent + ': chart; arrow keys step through the values');
    plot.addEventListener('keydown', (event) => step(chart, event));
    plot.addEventListener('blur', () => select(null));
  }

  const acrossTitle = () => state.across === 'epoch' ? 'epoch' : 'training time';

  function redraw(fresh) {
    charts.forEach((chart) => {
      const options = looks(chart);
      options.logscale = chart.log;
      if (fresh) Object.assign(options, {file: table(chart), dateWindow: null, valueRange: null});
      chart.graph.updateOptions(options);
      chart.across.textContent = acrossTitle();
    });
    showReset();
  }

  // All charts share their x axis: a zoom in one is a zoom in all.
  function follow(source, from, to) {
    const zoomed = source.graph.isZoomed('x');
    charts.forEach((chart) => {
      if (chart !== source) chart.graph.updateOptions({dateWindow: zoomed ? [from, to] : null});
    });
    showReset();
  }

  function showReset() {
    document.getElementById('reset').disabled = !charts.some((chart) => chart.graph.isZoomed());
  }

  // ------------------------------------------------------------------------------------------------ values at x

  // The epoch of a run that x asks for: the one of that number, or the last that had ended by that second.
  function epochAt(run, x) {
    const column = run.columns[state.across] || [];
    if (state.across === 'epoch') return column.indexOf(x);
    let found = -1;
    column.forEach((seconds, i) => { if (seconds !== null && seconds <= x) found = i; });
    return found;
  }

  function select(x, source) {
    charts.forEach((chart) => {
      chart.at = x;
      chart.tip.hidden = x === null || chart !== source;
      if (x === null) chart.graph.clearSelection();
      else if (chart !== source) chart.graph.setSelection(rowOf(chart, x));
    });
    if (x !== null) fillTip(source, x);
  }

  function rowOf(chart, x) {
    for (let row = 0; row < chart.graph.numRows(); row++) {
      if (chart.graph.getValue(row, 0) === x) return row;
    }
    return false;
  }

  function fillTip(chart, x) {
    const rows = [];
    data.runs.forEach((run, r) => {
      if (state.hidden.has(r)) return;
      const i = epochAt(run, x);
      if (i < 0) return;
      const values = chart.lines.map((line) => run.columns[line.key] ? run.columns[line.key][i] : null);
      if (values.some((v) => v !== null)) rows.push({r, values});
    });
    // The lowest first, in the order in which the lines lie at x, read upwards.
    const rank = (row) => row.values[0] === null ? Infinity : row.values[0];
    rows.sort((a, b) => rank(a) - rank(b));
    const cell = (name, text) => Object.assign(document.createElement(name), {textContent: text});
    const tableElement = document.createElement('table');
    tableElement.appendChild(cell('caption', state.across === 'epoch' ? 'epoch ' + x : 'after ' + duration(x)));
    const head = tableElement.createTHead().insertRow();
    head.appendChild(cell('th', ''));
    chart.lines.forEach((line) => head.appendChild(cell('th', line.label)));
    const body = tableElement.createTBody();
    rows.forEach((row) => {
      const line = body.insertRow();
      const name = line.appendChild(cell('th', ''));
      const sample = document.querySelector('.legend li:nth-child(' + (row.r + 1) + ') .swatch');
      name.append(sample.cloneNode(true), data.runs[row.r].name);
      row.values.forEach((v) => line.appendChild(cell('td', value(v, chart.format))));
    });
    chart.tip.replaceChildren(tableElement);
    chart.tip.hidden = rows.length === 0;
    // Beside the cursor; a long list goes to the far edge instead, where it covers less of what is looked at.
    const place = chart.graph.toDomXCoord(x);
    const width = chart.plot.clientWidth;
    const far = rows.length > 6;
    const onRight = place < width / 2;
    const offset = far ? 4 : 14 + (onRight ? place : width - place);
    const side = onRight !== far ? 'left' : 'right';
    Object.assign(chart.tip.style, {left: '', right: '', [side]: offset + 'px'});
  }

  function step(chart, event) {
    const steps = {ArrowLeft: -1, ArrowRight: 1};
    if (event.key === 'Escape') return select(null);
    if (!(event.key in steps) || event.target !== chart.plot) return;
    event.preventDefault();
    const last = chart.stops.length - 1;
    const from = chart.stops.indexOf(chart.at);
    const stop = from < 0 ? (steps[event.key] > 0 ? 0 : last) : from + steps[event.key];
    const next = chart.stops[Math.min(last, Math.max(0, stop))];
    chart.graph.setSelection(rowOf(chart, next));
    select(next, chart);
  }

  // ------------------------------------------------------------------------------------------------ switches

  function emphasise(run) {
    if (state.emphasis === run) return;
    state.emphasis = run;
    redraw(false);
  }

  all('input[name="across"]').forEach((input) => input.addEventListener('change', () => {
    state.across = input.value;
    root.dataset.across = input.value;
    redraw(true);
  }));

  all('input[data-show]').forEach((input) => {
    const run = Number(input.dataset.show);
    input.addEventListener('change', () => {
      if (input.checked) state.hidden.delete(run); else state.hidden.add(run);
      all('.plot svg [data-run="' + run + '"]').forEach((group) => group.classList.toggle('hidden', !input.checked));
      redraw(false);
    });
    const chip = input.closest('.chip');
    chip.addEventListener('mouseenter', () => emphasise(run));
    chip.addEventListener('mouseleave', () => emphasise(null));
  });

  // A browser may restore what was switched before a reload; the page starts as it was made.
  all('input').forEach((input) => { input.checked = input.defaultChecked; });

  if (live) {
    root.classList.add('live');
    data.charts.forEach(startChart);
    charts.forEach((chart) => { chart.across.textContent = acrossTitle(); });
    all('input[data-log]').forEach((input) => input.addEventListener('change', () => {
      const chart = charts.find((c) => c.id === input.dataset.log);
      chart.log = input.checked;
      chart.graph.updateOptions({logscale: chart.log, valueRange: null});
    }));
    document.getElementById('reset').addEventListener('click', () => redraw(true));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => redraw(false));
  }

  // ------------------------------------------------------------------------------------------------ the rest

  function sortable(element) {
    const heads = all('thead th', element);
    const body = element.tBodies[0];
    if (body.rows.length < 2) return;
    heads.forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') === 'ascending';
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const numeric = head.classList.contains('number');
        const key = (row) => {
          const cell = row.cells[column];
          if (!numeric) return cell.textContent;
          return 'value' in cell.dataset ? Number(cell.dataset.value) : null;
        };
        const rows = Array.from(body.rows).sort((a, b) => {
          const x = key(a), y = key(b);
          if (x === null || y === null) return (x === null) - (y === null);  // what is missing stays last
          const order = numeric ? x - y : x.localeCompare(y);
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

  all('table.results:not(.fixed)').forEach(sortable);

  // Paper cannot be unfolded.
  let unfolded = [];
  addEventListener('beforeprint', () => {
    unfolded = all('main details:not([open])');
    unfolded.forEach((details) => { details.open = true; });
  });
  addEventListener('afterprint', () => unfolded.forEach((details) => { details.open = false; }));

  root.dataset.ready = 'yes';
})();
