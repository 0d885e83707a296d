/** Saved views of the project: choose, save, rename, delete. */
import { useQuery } from '@tanstack/react-query';
import { Bookmark, BookmarkPlus, Check, ChevronDown, Pencil, Save, Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { type Schemas, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button } from '@/components/button';
import { askText } from '@/components/confirm-dialog';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { showToast, showError } from '@/components/toast';
import { safeProse } from '@/lib/safe-text';
import { savedViewsQuery } from './queries';
import { isSameQuery, parseView, viewBody, type TraceQuery, type TraceQueryState } from './trace-query';

type SavedView = Schemas['SavedViewRow'];

const refreshViews = () => queryClient.invalidateQueries({ queryKey: savedViewsQuery().queryKey });

async function createView(name: string, query: Record<string, unknown>): Promise<SavedView> {
  const view = await api('post', '/api/views', { body: { name, page: 'traces', body: query as never } });
  await refreshViews();
  return view;
}

async function saveViewAs(query: TraceQuery, setQuery: TraceQueryState['setQuery']): Promise<void> {
  const name = await askText({
    title: 'Save view',
    text: 'Everyone in the project can use it.',
    act: 'Save',
    value: '',
    label: 'Name',
  });
  if (!name) return;
  const view = await createView(name, viewBody(query));
  setQuery(query, { view: view.id, replace: true });
  showToast(`Saved as “${name}”.`);
}

async function replaceView(view: SavedView, name: string, query: Record<string, unknown>): Promise<void> {
  await api('put', '/api/views/{view}', { path: { view: view.id }, body: { name, body: query as never } });
  await refreshViews();
}

async function renameView(view: SavedView): Promise<void> {
  const name = await askText({ title: 'Rename view', act: 'Rename', value: view.name, label: 'Name' });
  if (name && name !== view.name) await replaceView(view, name, view.body);
}

async function saveView(view: SavedView, query: TraceQuery): Promise<void> {
  await replaceView(view, view.name, viewBody(query));
  showToast(`Updated “${view.name}”.`, {
    action: { label: 'Undo', run: () => void replaceView(view, view.name, view.body).catch(showError) },
  });
}

async function deleteView(view: SavedView): Promise<void> {
  await api('delete', '/api/views/{view}', { path: { view: view.id } });
  await refreshViews();
  showToast(`Deleted “${view.name}”.`, {
    action: { label: 'Undo', run: () => void createView(view.name, view.body).catch(showError) },
  });
}

export function ViewsMenu({
  queryState: { query, view: viewId, setQuery },
}: {
  queryState: TraceQueryState;
}): ReactNode {
  const { data, error } = useQuery(savedViewsQuery());
  const views = data?.data ?? [];
  const current = views.find(({ id }) => id === viewId);
  const isChanged = current && !isSameQuery(parseView(current.body), query);
  return (
    <Menu
      trigger={
        <Button variant="quiet" aria-label={current ? `View ${safeProse(current.name)}` : 'Views'}>
          <Bookmark aria-hidden className="size-4" />
          <span className="max-w-40 truncate max-sm:hidden" dir="auto">
            {current ? safeProse(current.name) : 'Views'}
            {isChanged && <span className="text-faint"> (changed)</span>}
          </span>
          <ChevronDown aria-hidden className="size-3.5 text-faint max-sm:hidden" />
        </Button>
      }
    >
      {error && <MenuTitle>Couldn’t load views.</MenuTitle>}
      {views.length > 0 && <MenuTitle>Saved views</MenuTitle>}
      {views.map((view) => (
        <MenuItem
          key={view.id}
          icon={view.id === viewId ? <Check /> : <Bookmark />}
          onSelect={() => setQuery(parseView(view.body), { view: view.id })}
        >
          <span className="block max-w-64 truncate" dir="auto">
            {safeProse(view.name)}
          </span>
        </MenuItem>
      ))}
      {views.length > 0 && <MenuLine />}
      <MenuItem icon={<BookmarkPlus />} onSelect={() => void saveViewAs(query, setQuery).catch(showError)}>
        Save as new view…
      </MenuItem>
      {current && (
        <>
          {isChanged && (
            <MenuItem icon={<Save />} onSelect={() => void saveView(current, query).catch(showError)}>
              Save changes
            </MenuItem>
          )}
          <MenuItem icon={<Pencil />} onSelect={() => void renameView(current).catch(showError)}>
            Rename…
          </MenuItem>
          <MenuItem
            danger
            icon={<Trash2 />}
            onSelect={() => {
              setQuery(query, { view: null, replace: true });
              void deleteView(current).catch(showError);
            }}
          >
            Delete
          </MenuItem>
        </>
      )}
    </Menu>
  );
}
