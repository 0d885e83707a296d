/** Going on from a trace in the playground: a thread with what was said, or a board with what was given. */
import { type Schemas, api } from '@/api/client';
import { client, workflow as describe, workflows } from '@/api/queries';
import type { Workflow } from '@/api/types';
import { BoardStore } from '@/board/board-store';

export type Live = Schemas['Live'];
type Values = Record<string, unknown>;

/** What a workflow can be given of what a trace was, and the names of what it cannot. */
export function fitting(values: Values, schema: Values | undefined): { fits: Values; rest: string[] } {
  const declared = schema?.['properties'];
  const names = typeof declared === 'object' && declared !== null ? declared : {};
  const takesAny = schema?.['additionalProperties'] !== undefined && schema['additionalProperties'] !== false;
  const all = Object.entries(values);
  const fits = (name: string) => takesAny || Object.hasOwn(names, name);
  return { fits: Object.fromEntries(all.filter(([name]) => fits(name))), rest: all.flatMap(([name]) => (fits(name) ? [] : [name])) };
}

/** One line about what was left out; null: nothing was. */
export function leftOut(workflow: string, names: readonly string[]): string | null {
  if (!names.length) return null;
  const shown = names.slice(0, 3).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name));
  const more = names.length - shown.length;
  return `${workflow} does not take ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}: left out.`;
}

/** Whether a workflow of that name is served now. */
export async function isKnown(name: string | null): Promise<boolean> {
  if (!name) return false;
  const { data } = await client.fetchQuery(workflows());
  return data.some((one) => one.name === name);
}

/** Starts nothing: makes what the playground shows, and gives its address and what was left out. A thread finds its title itself. */
export async function begin(name: string, live: Live, title: string): Promise<{ address: string; rest: string | null }> {
  const workflow = await client.fetchQuery(describe(name));
  const inputs = fitting(live.inputs, workflow.schemas.inputs);
  const parameters = fitting(live.parameters, workflow.schemas.parameters);
  const given = { inputs: inputs.fits, parameters: parameters.fits };
  const address = await (workflow.is_chat ? thread(workflow, live, given) : board(workflow, given, title));
  return { address, rest: leftOut(name, [...inputs.rest, ...parameters.rest]) };
}

interface Given {
  inputs: Values;
  parameters: Values;
}

async function thread({ name }: Workflow, live: Live, given: Given): Promise<string> {
  const body = { workflow: name, ...given, messages: live.messages };
  // The schema of a body gives objects of anything no keys; what is sent is what was read.
  const made = await api('post', '/api/threads', { body: body as never });
  return `/play/${made.id}`;
}

async function board({ name }: Workflow, { inputs, parameters }: Given, title: string): Promise<string> {
  const store = BoardStore.draft({
    name: title.slice(0, 120),
    mode: 'single',
    columns: [{ id: 'c1', workflow: name, variant: 'default', parameters }],
    rows: [{ id: 'r1', name: '', inputs }],
    layout: {},
  });
  return `/play/${(await store.ensure()).id}`;
}
