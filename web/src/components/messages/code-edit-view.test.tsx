// @vitest-environment happy-dom
/** A proposed change is put into the inputs and taken back; asked about first where that would undo somebody's work. */
import { Tooltip } from 'radix-ui';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { ConfirmDialog } from '@/components/confirm-dialog';
import { parseCodeEdit, InputsContext, type InputsAccess, type InputValues } from './code-edit';
import CodeEditView from './code-edit-view';

let now: InputValues;
let defaultInputs: InputValues;
const listeners = new Set<() => void>();
const INPUTS: InputsAccess = {
  subscribe: (listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  read: () => now,
  defaults: () => defaultInputs,
  change: (update) => {
    now = update(now);
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

it('applies, says so, and undoes; the button stays the same one', async () => {
  now = { context: { code: 'a', adaptor: 'http' } };
  await renderEdit(EDIT);
  const first = button('Apply');
  expect(statusText()).toBe('to the input context.code');
  await press('Apply');
  expect([now, statusText(), button('Undo')]).toEqual([
    { context: { code: 'b', adaptor: 'http' } },
    'Applied to context.code; the next question sends it',
    first,
  ]);
  await press('Undo');
  expect([now, button('Apply')]).toEqual([{ context: { code: 'a', adaptor: 'http' } }, first]);
});

it('asks before it replaces what somebody wrote since, and brings that back', async () => {
  now = { context: { code: 'a' } };
  await renderEdit(EDIT);
  await type({ context: { code: 'mine' } });
  expect(statusText()).toBe('context.code has changed since');
  await press('Apply');
  expect(document.querySelector('[role=dialog]')?.textContent).toContain('The code has changed since');
  await press('Cancel');
  expect(now).toEqual({ context: { code: 'mine' } });
  await press('Apply');
  await press('Apply anyway');
  expect(now).toEqual({ context: { code: 'b' } });
  await press('Undo');
  expect(now).toEqual({ context: { code: 'mine' } });
});

it('is applied already where another tab did it, and undone to the old code', async () => {
  now = { context: { code: 'b' } };
  await renderEdit(EDIT);
  await press('Undo');
  expect(now).toEqual({ context: { code: 'a' } });
});

it('begins with the default of an input that is not set, and leaves the rest of it', async () => {
  now = {};
  defaultInputs = { context: { code: 'a', adaptor: 'http' }, flag: true };
  await renderEdit(EDIT);
  await press('Apply');
  expect(now).toEqual({ context: { code: 'b', adaptor: 'http' } });
});

it('finds the place that nobody names, and knows it when somebody writes there', async () => {
  now = { job: 'a' };
  await renderEdit({ old: 'a', new: 'b' });
  await type({ job: 'mine' });
  expect(statusText()).toBe('job has changed since');
});

it('offers nothing where there are no inputs, or no place in them, or nothing new', async () => {
  for (const [value, inputs] of [
    [EDIT, null],
    [{ old: 'x', new: 'y' }, INPUTS],
    [{ old: 'a', new: null, input: '/job' }, INPUTS],
  ] as const) {
    now = { job: 'a' };
    await renderEdit(value, inputs);
    expect(button('Apply')).toBeUndefined();
    unmount();
  }
});

it('lists what rules found, says when they found nothing, and is silent when none were asked', async () => {
  now = {};
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
  expect(document.body.textContent).toContain('Checked: no findings');
  unmount();
  await renderEdit(EDIT);
  expect(document.body.textContent).not.toContain('finding');
});
