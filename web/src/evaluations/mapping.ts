/** Where the columns of a test set go when nobody says: as the server finds it out, to be shown before. Pure. */
import type { Workflow } from '@/api/types';
import { isObject } from '@/forms/schema';
import type { NamedColumn } from './queries';

const EXPECTED = ['expected', 'expected_output', 'correct_answer', 'ground_truth', 'reference'];
/** Kinds of columns that can be what is said to a chat. */
const SPOKEN: ReadonlySet<string> = new Set(['chat', 'message', 'text', 'mixed']);

export interface Mapping {
  messages: string | null;
  /** What was said before. */
  history: string | null;
  script: string | null;
  expected: string | null;
  /** By the input's name, its column. */
  inputs: Readonly<Record<string, string>>;
}

type Described = Pick<Workflow, 'is_chat' | 'schemas'>;

/** The names of a workflow's inputs, without the messages of a chat. */
export function inputNames({ is_chat: isChat, schemas }: Described): string[] {
  const properties = propertiesOf(schemas.inputs);
  return Object.keys(properties).filter((name) => !(isChat && (name === 'messages' || isMarked(properties[name]))));
}

export const canBeSaid = ({ kind }: NamedColumn): boolean => SPOKEN.has(kind);

/** What goes where for a workflow; `answers` are columns that hold answers already. */
export function mapped(columns: readonly NamedColumn[], workflow: Described | null, answers: readonly string[] = []): Mapping {
  const names = columns.map(({ name }) => name);
  const expected = EXPECTED.find((name) => names.includes(name)) ?? null;
  const isChat = workflow?.is_chat ?? true;
  const scripts = columns.filter(({ kind }) => kind === 'script').map(({ name }) => name);
  const script = isChat ? (scripts.includes('script') ? 'script' : only(scripts)) : null;
  const properties = workflow ? propertiesOf(workflow.schemas.inputs) : {};
  const marked = Object.keys(properties).filter((name) => isMarked(properties[name]));
  const byName = [...marked, 'messages'].find((name) => names.includes(name)) ?? null;
  // As in the payload of a service: the one column of conversations may be what came before.
  const content = columns.some((one) => one.name === 'content' && canBeSaid(one)) && !Object.hasOwn(properties, 'content') ? 'content' : null;
  const messages = isChat ? (byName ?? content ?? only(columns.filter(({ kind }) => kind === 'chat').map(({ name }) => name))) : null;
  const history = messages === 'content' && names.includes('history') && !Object.hasOwn(properties, 'history') ? 'history' : null;
  const isOpen = workflow?.schemas.inputs?.['additionalProperties'] !== false;
  const taken = new Set([expected, script, messages, history, ...answers.filter((name) => !Object.hasOwn(properties, name))]);
  const free = names.filter((name) => !taken.has(name) && (Object.hasOwn(properties, name) || isOpen));
  return { messages, history, script, expected, inputs: Object.fromEntries(free.map((name) => [name, name])) };
}

const only = (names: readonly string[]): string | null => (names.length === 1 ? (names[0] ?? null) : null);

function propertiesOf(schema: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> {
  return isObject(schema?.['properties']) ? schema['properties'] : {};
}

const isMarked = (schema: unknown): boolean => isObject(schema) && schema['x-ag-type-ref'] === 'messages';
