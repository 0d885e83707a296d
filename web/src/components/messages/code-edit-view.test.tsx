// @vitest-environment happy-dom
/** Proposed edits are applied to the inputs and undone, with a confirmation before they overwrite a later change. */
import { Tooltip } from 'radix-ui';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { ConfirmDialog } from '@/components/confirm-dialog';
import { parseCodeEdit, InputsContext, type InputsAccess, type InputValues } from './code-edit';
import CodeEditView from './code-edit-view';

let currentInputs: InputValues;
let defaultInputs: InputValues;
const listeners = new Set<() => void>();
const INPUTS: InputsAccess = {
  subscribe: (listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  read: () => currentInputs,
  defaults: () => defaultInputs,
  change: (update) => {
    currentInputs = update(currentInputs);
    for (const listener of listeners) listener();
  },
};

let unmount = () => {};
beforeAll(() => void vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true));
beforeEach(() => {
  defaultInputs = {};
});
afterEach(() => {
  unmount();
  document.body.replaceChildren();
});

async function renderEdit(value: object, inputs: InputsAccess | null = INPUTS): Promise<void> {
  const edit = parseCodeEdit(value);
  const container = document.body.appendChild(document.createElement('div'));
  const root = createRoot(container);
  unmount = () => act(() => root.unmount());
  await act(async () => {
    root.render(
      <Tooltip.Provider>
        <InputsContext value={inputs}>{edit && <CodeEditView edit={edit} />}</InputsContext>
        <ConfirmDialog />
      </Tooltip.Provider>,
    );
  });
}

const button = (name: string) => [...document.querySelectorAll('button')].find((one) => one.textContent === name);
const press = (name: string) => act(async () => button(name)?.click());
const type = (values: InputValues) => act(async () => INPUTS.change(() => values));
const statusText = () => document.querySelector('[role=status]')?.textContent;

const EDIT = { old: 'a', new: 'b', input: '/context/code' };

it('applies an edit, reports it and undoes it, with the same button element', async () => {
  currentInputs = { context: { code: 'a', adaptor: 'http' } };
  await renderEdit(EDIT);
  const first = button('Apply');
  expect(statusText()).toBe('to input context.code');
  await press('Apply');
  expect([currentInputs, statusText(), button('Undo')]).toEqual([
    { context: { code: 'b', adaptor: 'http' } },
    'Applied to context.code. Sent with your next message.',
    first,
  ]);
  await press('Undo');
  expect([currentInputs, button('Apply')]).toEqual([{ context: { code: 'a', adaptor: 'http' } }, first]);
});

it('asks before it overwrites a later change, and restores that change on undo', async () => {
  currentInputs = { context: { code: 'a' } };
  await renderEdit(EDIT);
  await type({ context: { code: 'mine' } });
  expect(statusText()).toBe('context.code has changed since this edit');
  await press('Apply');
  expect(document.querySelector('[role=dialog]')?.textContent).toContain('Replace newer code?');
  await press('Cancel');
  expect(currentInputs).toEqual({ context: { code: 'mine' } });
  await press('Apply');
  await press('Apply anyway');
  expect(currentInputs).toEqual({ context: { code: 'b' } });
  await press('Undo');
  expect(currentInputs).toEqual({ context: { code: 'mine' } });
});

it('recognizes an edit that is already applied, and undoes it to the old code', async () => {
  currentInputs = { context: { code: 'b' } };
  await renderEdit(EDIT);
  await press('Undo');
  expect(currentInputs).toEqual({ context: { code: 'a' } });
});

it('starts with the default of an unset input, and keeps the rest of it', async () => {
  currentInputs = {};
  defaultInputs = { context: { code: 'a', adaptor: 'http' }, flag: true };
  await renderEdit(EDIT);
  await press('Apply');
  expect(currentInputs).toEqual({ context: { code: 'b', adaptor: 'http' } });
});

it('finds a target that is not named, and remembers it after a change', async () => {
  currentInputs = { job: 'a' };
  await renderEdit({ old: 'a', new: 'b' });
  await type({ job: 'mine' });
  expect(statusText()).toBe('job has changed since this edit');
});

it('offers no button without inputs, a target or new code', async () => {
  for (const [value, inputs] of [
    [EDIT, null],
    [{ old: 'x', new: 'y' }, INPUTS],
    [{ old: 'a', new: null, input: '/job' }, INPUTS],
  ] as const) {
    currentInputs = { job: 'a' };
    await renderEdit(value, inputs);
    expect(button('Apply')).toBeUndefined();
    unmount();
  }
});

it('lists findings, reports when there are none, and shows nothing if no rules ran', async () => {
  currentInputs = {};
  await renderEdit({
    ...EDIT,
    findings: [
      { rule: 'no_import', level: 'error', line: 2, message: 'No imports.' },
      { level: 'note', message: 'Fine.' },
    ],
  });
  expect([...document.querySelectorAll('[aria-label=Findings] li')].map((item) => item.textContent)).toEqual([
    'errorLine 2No imports.no_import',
    'noteFine.',
  ]);
  unmount();
  await renderEdit({ ...EDIT, findings: [] });
  expect(document.body.textContent).toContain('No findings');
  unmount();
  await renderEdit(EDIT);
  expect(document.body.textContent).not.toContain('finding');
});
