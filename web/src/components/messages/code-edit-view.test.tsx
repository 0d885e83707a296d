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
let usual: InputValues;
const listeners = new Set<() => void>();
const INPUTS: InputsAccess = {
  subscribe: (listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  read: () => now,
  defaults: () => usual,
  change: (update) => {
    now = update(now);
    for (const listener of listeners) listener();
  },
};

let leave = () => {};
beforeAll(() => void vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true));
beforeEach(() => {
  usual = {};
});
afterEach(() => {
  leave();
  document.body.replaceChildren();
});

async function shown(value: object, inputs: InputsAccess | null = INPUTS): Promise<void> {
  const edit = parseCodeEdit(value);
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  leave = () => act(() => root.unmount());
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
const said = () => document.querySelector('[role=status]')?.textContent;

const EDIT = { old: 'a', new: 'b', input: '/context/code' };

it('applies, says so, and undoes; the button stays the same one', async () => {
  now = { context: { code: 'a', adaptor: 'http' } };
  await shown(EDIT);
  const first = button('Apply');
  expect(said()).toBe('to the input context.code');
  await press('Apply');
  expect([now, said(), button('Undo')]).toEqual([
    { context: { code: 'b', adaptor: 'http' } },
    'Applied to context.code; the next question sends it',
    first,
  ]);
  await press('Undo');
  expect([now, button('Apply')]).toEqual([{ context: { code: 'a', adaptor: 'http' } }, first]);
});

it('asks before it replaces what somebody wrote since, and brings that back', async () => {
  now = { context: { code: 'a' } };
  await shown(EDIT);
  await type({ context: { code: 'mine' } });
  expect(said()).toBe('context.code has changed since');
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
  await shown(EDIT);
  await press('Undo');
  expect(now).toEqual({ context: { code: 'a' } });
});

it('begins with the default of an input that is not set, and leaves the rest of it', async () => {
  now = {};
  usual = { context: { code: 'a', adaptor: 'http' }, flag: true };
  await shown(EDIT);
  await press('Apply');
  expect(now).toEqual({ context: { code: 'b', adaptor: 'http' } });
});

it('finds the place that nobody names, and knows it when somebody writes there', async () => {
  now = { job: 'a' };
  await shown({ old: 'a', new: 'b' });
  await type({ job: 'mine' });
  expect(said()).toBe('job has changed since');
});

it('offers nothing where there are no inputs, or no place in them, or nothing new', async () => {
  for (const [value, inputs] of [
    [EDIT, null],
    [{ old: 'x', new: 'y' }, INPUTS],
    [{ old: 'a', new: null, input: '/job' }, INPUTS],
  ] as const) {
    now = { job: 'a' };
    await shown(value, inputs);
    expect(button('Apply')).toBeUndefined();
    leave();
  }
});

it('lists what rules found, says when they found nothing, and is silent when none were asked', async () => {
  now = {};
  await shown({
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
  leave();
  await shown({ ...EDIT, findings: [] });
  expect(document.body.textContent).toContain('Checked: no findings');
  leave();
  await shown(EDIT);
  expect(document.body.textContent).not.toContain('finding');
});
