import { describe, expect, it } from 'vitest';
import { jsonSummary, jsonText } from '@/components/json-view';
import { formatUsage, formatCompactNumber, formatDuration, formatSize } from '@/lib/format';
import { parseCodeEdit } from './code-edit';
import { diffLines, unifiedPatch } from './code-edit-view';
import type { ChatPart } from './message';
import { isNotice, parseNotice, groupParts, spokenText, type ToolPart } from './parts';
import { toolSummary, toolState } from './tool-view';

describe('parts', () => {
  const parts: ChatPart[] = [
    { type: 'step-start' },
    { type: 'text', text: 'a' },
    { type: 'source-url', sourceId: '1', url: 'https://a.example' },
    { type: 'source-url', sourceId: '2', url: 'https://b.example' },
    { type: 'text', text: 'b' },
    { type: 'data-x', data: 1 },
  ];

  it('are shown in order, with adjacent sources grouped', () => {
    expect(groupParts(parts).map((group) => (group.kind === 'sources' ? group.parts.length : group.kind))).toEqual([
      'text',
      2,
      'text',
      'data',
    ]);
  });

  it('are copied as their text', () => expect(spokenText(parts)).toBe('a\n\nb'));
});

describe('a tool call', () => {
  const call = { type: 'dynamic-tool', toolName: 't', toolCallId: '1' } as const;
  const calls: ToolPart[] = [
    { ...call, state: 'input-streaming', input: undefined, rawInput: '{"a' },
    { ...call, state: 'input-available', input: { a: 1 } },
    { ...call, state: 'input-available', input: { a: 1 }, providerExecuted: true },
    { ...call, state: 'approval-requested', input: {}, approval: { id: '1' } },
    { ...call, state: 'approval-responded', input: {}, approval: { id: '1', approved: false } },
    { ...call, state: 'output-available', input: {}, output: [1, 2] },
    { ...call, state: 'output-error', input: {}, errorText: 'No.\nReally.' },
    { ...call, state: 'output-denied', input: {}, approval: { id: '1', approved: false, reason: 'why' } },
  ];

  it('has a state that depends on whether the message is streaming', () => {
    expect(calls.map((part) => toolState(part, true))).toEqual([
      'running',
      'running',
      'running',
      'waiting',
      'denied',
      'done',
      'failed',
      'denied',
    ]);
    expect(calls.map((part) => toolState(part, false))).toEqual([
      'stopped',
      'waiting',
      'stopped',
      'waiting',
      'denied',
      'done',
      'failed',
      'denied',
    ]);
  });

  it('has a one-line summary', () => {
    expect(calls.map(toolSummary)).toEqual(['{"a', '{a: 1}', '{a: 1}', '{}', '{}', '[1, 2]', 'No.', 'why']);
  });
});

describe('a code edit', () => {
  it('is parsed from a data part, and other values are rejected', () => {
    expect(
      parseCodeEdit({
        old: 'a',
        new: null,
        target: 'job',
        syntax: { ok: false, errors: [{ line: 3, message: 'bad' }] },
        edits: [{ state: 'failed', reason: 'gone' }, 7],
      }),
    ).toEqual({
      language: '',
      target: 'job',
      old: 'a',
      new: null,
      input: null,
      errors: ['line 3: bad'],
      edits: [{ state: 'failed', reason: 'gone' }],
      findings: null,
    });
    expect([null, 'x', [], {}, { old: 1, new: 'a' }].map(parseCodeEdit)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('has the path of its code, parsed from a JSON pointer', () => {
    const inputs = ['/context/expression', '/a~1b/~01', '/', '', 'context', 7, `/${'x'.repeat(500)}`, undefined];

    expect(inputs.map((input) => parseCodeEdit({ old: '', input })?.input)).toEqual([
      ['context', 'expression'],
      ['a/b', '~1'],
      [''],
      null,
      null,
      null,
      null,
      null,
    ]);
  });

  it('has the valid findings of rules, at most 100', () => {
    const findings = [
      { rule: 'no_import', level: 'error', line: 2, message: 'No imports.' },
      { level: 'fatal', line: -1, message: 'Odd.' },
      { rule: 'silent' },
      'x',
      null,
    ];

    expect(parseCodeEdit({ old: '', findings })?.findings).toEqual([
      { rule: 'no_import', level: 'error', line: 2, message: 'No imports.' },
      { rule: '', level: 'note', line: null, message: 'Odd.' },
    ]);
    expect(
      [[], undefined, {}, ['x'], Array.from({ length: 500 }, () => ({ message: 'm' }))].map(
        (list) => parseCodeEdit({ old: '', findings: list })?.findings?.length,
      ),
    ).toEqual([0, undefined, undefined, undefined, 100]);
  });

  it('is copied as a unified diff', () => {
    expect(unifiedPatch('my job\n\u202Ex', 'a\nb\n', 'a\nB\n')).toBe(
      '--- a/my-job-x\n+++ b/my-job-x\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n',
    );
    expect(unifiedPatch('', '', 'a')).toBe(
      '--- a/code\n+++ b/code\n@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n',
    );
  });

  it('is shown as a line diff, unless it is too large', () => {
    expect(diffLines('a\nb\nc\n', 'a\nB\nc\n')).toEqual([
      { kind: 'same', before: 1, after: 1, text: 'a' },
      { kind: 'old', before: 2, text: 'b' },
      { kind: 'new', after: 2, text: 'B' },
      { kind: 'same', before: 3, after: 3, text: 'c' },
    ]);
    expect(diffLines('a', 'a')).toEqual([]);
    expect(diffLines('a'.repeat(500_000), '')).toBeUndefined();
  });
});

describe('a notice', () => {
  it('is parsed from a data part, and other values are rejected', () => {
    expect(
      [{ level: 'warning', text: 'Old.' }, { text: 'Rehearsal.' }, { level: 'loud', text: 'x' }].map(parseNotice),
    ).toEqual([
      { level: 'warning', text: 'Old.' },
      { level: 'info', text: 'Rehearsal.' },
      { level: 'info', text: 'x' },
    ]);
    expect([null, 'x', [], {}, { text: 1 }, { text: ' ' }].map(parseNotice)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('is distinguished from other parts', () => {
    const parts: ChatPart[] = [
      { type: 'text', text: 'a' },
      { type: 'data-notice', data: { text: 'x' } },
      { type: 'data-notice', data: 'x' },
      { type: 'data-note', data: { text: 'x' } },
    ];

    expect(groupParts(parts).map(isNotice)).toEqual([false, true, false, false]);
  });
});

describe('formatting', () => {
  it('shortens numbers, sizes, durations and usage', () => {
    expect([0, 999, 1000, 12_345, 1_250_000].map(formatCompactNumber)).toEqual(['0', '999', '1k', '12k', '1.3M']);
    expect([5, 1200, 2_000_000].map(formatSize)).toEqual(['5 B', '1.2 KB', '2 MB']);
    expect([0.04, 1.42, 12.3, 119.7, 125].map(formatDuration)).toEqual([
      '40 ms',
      '1.4 s',
      '12 s',
      '2 min 0 s',
      '2 min 5 s',
    ]);
    expect(formatUsage({ usage: { inputTokens: 300, outputTokens: 12 }, seconds: 1.4 })).toBe('312 tokens · 1.4 s');
    expect(formatUsage({})).toBe('');
  });

  it('summarizes JSON values', () => {
    expect(jsonSummary({ a: [1, 'x', null], b: { c: true } })).toBe('{a: [1, "x", null], b: {c: true}}');
    expect(
      jsonSummary(
        Array.from({ length: 1000 }, (_, index) => index),
        20,
      ),
    ).toHaveLength(20);
    expect(jsonText(undefined)).toBe('undefined');
  });
});
