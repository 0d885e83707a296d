/** Which column goes where. What nobody changes is found out; it is shown as it will be. */
import { useQueries } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { workflowQuery } from '@/api/queries';
import { Button } from '@/components/button';
import { Section } from '@/components/collapsible';
import { Select, Labelled, Faults } from '@/components/form-fields';
import type { FieldError } from '@/components/forms/values';
import { under, type MapDraft, type VariantDraft } from './draft';
import { canBeSaid, either, inputNames, mapped } from './mapping';
import type { NamedColumn } from './queries';

interface Props {
  map: MapDraft;
  columns: readonly NamedColumn[];
  variants: readonly VariantDraft[];
  onChange: (map: MapDraft) => void;
  faults: readonly FieldError[];
}

export function MappingPart({ map, columns, variants, onChange, faults }: Props): ReactNode {
  const names = [...new Set(variants.flatMap(({ kind, workflow: name }) => (kind === 'workflow' && name ? [name] : [])))];
  const described = useQueries({ queries: names.map((name) => workflowQuery(name)), combine: (all) => all.flatMap(({ data }) => (data ? [data] : [])) });
  const answers = variants.flatMap(({ kind, column }) => (kind === 'column' ? [column] : []));
  const usual = mapped(columns, described.find((one) => one.is_chat) ?? described[0] ?? null, answers, map);
  const said = either(map.messages, usual.messages);
  const isText = columns.some(({ name, kind }) => name === said && kind === 'text');
  const isChat = described.length === 0 || described.some((one) => one.is_chat);
  const instead = usual.spoken === null ? null : `where there ${said === null ? 'is no script' : 'are no messages'}: ${usual.spoken}`;
  const hint = usual.spoken !== null ? `where ${said === null ? 'no script' : 'none'}: ${usual.spoken}` : isText ? 'what the user says' : null;
  const inputs = [...new Set([...described.flatMap(inputNames), ...Object.keys(usual.inputs), ...Object.keys(map.inputs ?? {})])];
  const holds = map.inputs ?? usual.inputs;
  const shown = [
    isChat && described.length > 0 && `${isText ? 'the user says' : 'messages'} ← ${said ?? 'nothing'}`,
    either(map.history, usual.history) !== null && `said before ← ${either(map.history, usual.history)}`,
    either(map.script, usual.script) !== null && `script ← ${either(map.script, usual.script)}`,
    instead,
    `expected ← ${either(map.expected, usual.expected) ?? 'nothing'}`,
    Object.keys(holds).length > 0 && `inputs ← ${Object.values(holds).join(', ')}`,
  ].filter(Boolean);
  const wrong = under(faults, '/map');
  const isChanged = Object.keys(map).length > 0;
  const setInput = (name: string, column: string) => {
    const { [name]: _, ...rest } = holds;
    onChange({ ...map, inputs: column ? { ...rest, [name]: column } : rest });
  };
  return (
    <div className="min-w-0" data-at="/map">
      <Section
        key={String(wrong.length > 0)}
        title="Columns"
        open={wrong.length > 0 || isChanged}
        aside={<span className="min-w-0 truncate text-xs text-muted max-sm:max-w-40" dir="auto">{shown.join(' · ')}</span>}
      >
        <div className="grid gap-3 py-1 pl-5 sm:grid-cols-3">
          {isChat && <Choice label="Messages" at="/map/messages" {...(hint ? { hint } : {})} value={map.messages} usual={usual.messages} columns={columns.filter(canBeSaid)} onChange={(messages) => onChange(put(map, 'messages', messages))} faults={faults} />}
          {isChat && (usual.history !== null || map.history !== undefined || columns.filter(({ kind }) => kind === 'chat').length > 1) && (
            <Choice label="Said before" at="/map/history" value={map.history} usual={usual.history} columns={columns.filter(canBeSaid)} onChange={(history) => onChange(put(map, 'history', history))} faults={faults} />
          )}
          {isChat && columns.some(({ kind }) => kind === 'script' || kind === 'json' || kind === 'mixed') && (
            <Choice label="Script" at="/map/script" value={map.script} usual={usual.script} columns={columns} onChange={(script) => onChange(put(map, 'script', script))} faults={faults} />
          )}
          <Choice label="Expected" at="/map/expected" value={map.expected} usual={usual.expected} columns={columns} onChange={(expected) => onChange(put(map, 'expected', expected))} faults={faults} />
        </div>
        {inputs.length > 0 && (
          <div className="py-1 pl-5">
            <div className="flex items-center gap-2">
              <h4 className="text-[13px] font-medium text-muted">Inputs</h4>
              {map.inputs !== undefined && <Button size="small" look="quiet" onClick={() => onChange(put(map, 'inputs', undefined))}>As found</Button>}
            </div>
            <div className="grid gap-3 sm:grid-cols-3">
              {inputs.map((name) => (
                <div key={name} className="min-w-0" data-at={inputAt(name)}>
                  <Labelled label={name}>
                    <Select value={holds[name] ?? ''} aria-invalid={under(faults, inputAt(name)).length > 0} onChange={(event) => setInput(name, event.target.value)}>
                      <option value="">Nothing</option>
                      {columns.map((column) => <option key={column.name} value={column.name}>{column.name}</option>)}
                    </Select>
                  </Labelled>
                  <Faults faults={under(faults, inputAt(name))} />
                </div>
              ))}
            </div>
          </div>
        )}
      </Section>
    </div>
  );
}

const inputAt = (name: string): string => `/map/inputs/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;

function put<N extends keyof MapDraft>(map: MapDraft, name: N, value: MapDraft[N] | undefined): MapDraft {
  const { [name]: _, ...rest } = map;
  return value === undefined ? rest : { ...rest, [name]: value };
}

interface ChoiceProps {
  label: string;
  hint?: string;
  value: string | null | undefined;
  usual: string | null;
  /** The pointer that it is about. */
  at: string;
  columns: readonly NamedColumn[];
  onChange: (value: string | null | undefined) => void;
  faults: readonly FieldError[];
}

/** A column's name may be anything, also empty: so the choices have numbers. */
function Choice({ label, hint, at, value, usual, columns, onChange, faults }: ChoiceProps): ReactNode {
  const place = columns.findIndex(({ name }) => name === value);
  const wrong = under(faults, at);
  const chosen = value === undefined ? 'auto' : value === null ? 'none' : String(place);
  return (
    <div className="min-w-0" data-at={at}>
      <Labelled label={label} {...(hint ? { hint } : {})}>
        <Select
          value={chosen}
          aria-invalid={wrong.length > 0}
          onChange={({ target }) => onChange(target.value === 'auto' ? undefined : target.value === 'none' ? null : (columns[Number(target.value)]?.name ?? null))}
        >
          <option value="auto">{usual === null ? 'Nothing found' : `${usual} (found)`}</option>
          <option value="none">Nothing</option>
          {columns.map(({ name, kind }, number) => <option key={name} value={String(number)}>{name} ({kind})</option>)}
        </Select>
      </Labelled>
      <Faults faults={wrong} />
    </div>
  );
}
