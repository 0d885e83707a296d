/** Header of a column: workflow, variant and parameters. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Columns2, MoreHorizontal, Save, SlidersHorizontal, Trash2, Plus } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { api, type Column } from '@/api/client';
import { variantsQuery, workflowQuery, workflowsQuery } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import { Popover } from '@/components/dialog';
import { TextField } from '@/components/form-fields';
import { SchemaForm } from '@/components/forms/schema-form';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { Badge } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { useBoard, useBoardStore, freeId } from './board-store';

const SELECT_CLASS = 'h-7 min-w-0 cursor-pointer truncate rounded-md bg-transparent px-1 hover:bg-sunken';

export function ColumnHeader({ column }: { column: Column }): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const variants = useQuery(variantsQuery(column.workflow)).data?.data ?? [];
  const change = (patch: Partial<Column>) =>
    store.change((old) => ({
      ...old,
      columns: old.columns.map((other) => (other.id === column.id ? { ...other, ...patch } : other)),
    }));
  const duplicate = () =>
    store.change((old) => ({ ...old, columns: [...old.columns, { ...column, id: freeId('c', old.columns) }] }));
  const remove = () => store.change((old) => ({ ...old, columns: old.columns.filter(({ id }) => id !== column.id) }));
  const choices = workflows.filter(
    ({ is_chat, name }) => board.mode === 'single' || is_chat || name === column.workflow,
  );
  return (
    <div className="flex h-10 min-w-0 items-center gap-1 px-2">
      <select
        aria-label="Workflow"
        className={`${SELECT_CLASS} max-w-1/2 font-medium`}
        value={column.workflow}
        onChange={(event) => change({ workflow: event.target.value, variant: 'default', parameters: {} })}
      >
        {!choices.some((workflow) => workflow.name === column.workflow) && <option>{column.workflow}</option>}
        {choices.map((workflow) => (
          <option key={workflow.name}>{workflow.name}</option>
        ))}
      </select>
      {(variants.length > 1 || column.variant !== 'default') && (
        <select
          aria-label="Variant"
          className={`${SELECT_CLASS} text-muted`}
          value={column.variant}
          onChange={(event) => change({ variant: event.target.value })}
        >
          {!variants.some((variant) => variant.name === column.variant) && <option>{column.variant}</option>}
          {variants.map((variant) => (
            <option key={variant.id}>{variant.name}</option>
          ))}
        </select>
      )}
      <span className="grow" />
      <Parameters
        column={column}
        onChange={(parameters) => change({ parameters })}
        onSaved={(variant) => change({ variant, parameters: {} })}
      />
      <Menu
        trigger={
          <IconButton label="Column menu" size="small">
            <MoreHorizontal />
          </IconButton>
        }
      >
        <MenuItem icon={<Columns2 />} onSelect={duplicate} disabled={board.columns.length >= 8}>
          Duplicate column
        </MenuItem>
        <MenuLine />
        <MenuItem icon={<Trash2 />} danger onSelect={remove} disabled={board.columns.length < 2}>
          Remove column
        </MenuItem>
      </Menu>
    </div>
  );
}

interface ParametersProps {
  column: Column;
  onChange: (parameters: Record<string, unknown>) => void;
  onSaved: (variant: string) => void;
}

function Parameters({ column, onChange, onSaved }: ParametersProps): ReactNode {
  const { data } = useQuery(workflowQuery(column.workflow));
  const schema = data?.schemas.parameters as { properties?: object } | undefined;
  if (!schema || Object.keys(schema.properties ?? {}).length === 0) return null;
  const editCount = Object.keys(column.parameters ?? {}).length;
  return (
    <Popover
      label="Parameters"
      width="w-96"
      trigger={
        <Button size="small" variant="quiet" aria-label={`Parameters${editCount ? `, ${editCount} changed` : ''}`}>
          <SlidersHorizontal className="size-3.5" />
          {editCount > 0 && <Badge tone="accent">{editCount}</Badge>}
        </Button>
      }
    >
      <h3 className="mb-3 font-semibold">
        Parameters of {column.workflow} <span className="font-normal text-muted">{column.variant}</span>
      </h3>
      <SchemaForm
        schema={schema}
        value={column.parameters ?? {}}
        placeholder={data?.parameters ?? {}}
        onChange={onChange}
      />
      {editCount > 0 && <SaveVariantForm column={column} onSaved={onSaved} />}
    </Popover>
  );
}

/** Save edited parameters as a new version of the variant, or as another variant. */
function SaveVariantForm({ column, onSaved }: { column: Column; onSaved: (variant: string) => void }): ReactNode {
  const cache = useQueryClient();
  const variant = (column.variant ?? 'default').split(':')[0] ?? 'default';
  const [name, setName] = useState(variant === 'default' ? '' : variant);
  const save = async () => {
    const { data } = await api('get', '/api/workflows/{workflow}/variants', { path: { workflow: column.workflow } });
    const existing = data.find((candidate) => candidate.name === name);
    const base = data.find((candidate) => candidate.name === variant);
    const baseParameters = base
      ? (
          await api('get', '/api/variants/{variant}/versions/{number}', {
            path: { variant: base.id, number: base.head },
          })
        ).parameters
      : {};
    const parameters = { ...(variant === 'default' ? {} : baseParameters), ...column.parameters };
    if (existing)
      await api('post', '/api/variants/{variant}/versions', {
        path: { variant: existing.id },
        body: { base: existing.head, parameters },
      });
    else
      await api('post', '/api/workflows/{workflow}/variants', {
        path: { workflow: column.workflow },
        body: { name, parameters },
      });
    await cache.invalidateQueries({ queryKey: ['variants', column.workflow] });
    onSaved(name);
    showToast(existing ? `Saved as version ${existing.head + 1} of ${name}.` : `Saved as variant ${name}.`);
  };
  return (
    <form
      className="mt-4 flex gap-2 border-t pt-3"
      onSubmit={(event) => {
        event.preventDefault();
        save().catch(showError);
      }}
    >
      <TextField
        aria-label="Variant name"
        placeholder="Variant name"
        value={name}
        onChange={(event) => setName(event.target.value)}
        pattern="[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}"
        required
      />
      <Button type="submit" disabled={!name || name === 'default'}>
        <Save className="size-4" /> Save
      </Button>
    </form>
  );
}

/** Add a column with the same or another workflow. */
export function AddColumn(): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const lastColumn = board.columns.at(-1);
  const add = (workflow: string, variant = 'default', parameters = {}) =>
    store.change((old) => ({
      ...old,
      columns: [...old.columns, { id: freeId('c', old.columns), workflow, variant, parameters }],
    }));
  useCommand(
    lastColumn && {
      id: 'add-variant',
      title: 'Add variant',
      group: 'Chat',
      keys: 'alt+v',
      run: () => add(lastColumn.workflow, lastColumn.variant, lastColumn.parameters),
    },
  );
  return (
    <Menu
      trigger={
        <IconButton label="Add variant" size="small">
          <Plus />
        </IconButton>
      }
    >
      {lastColumn && (
        <>
          <MenuItem onSelect={() => add(lastColumn.workflow, lastColumn.variant, lastColumn.parameters)}>
            Duplicate {lastColumn.workflow}
          </MenuItem>
          <MenuLine />
        </>
      )}
      <MenuTitle>Add workflow</MenuTitle>
      {workflows
        .filter((workflow) => board.mode === 'single' || workflow.is_chat)
        .map((workflow) => (
          <MenuItem key={workflow.name} onSelect={() => add(workflow.name)}>
            {workflow.name}
          </MenuItem>
        ))}
    </Menu>
  );
}
